/** A voice message with a player, if the browser supports the format, and WeChat's transcript. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Icon, IconButton } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { Download } from './media.tsx'
import { duration, itemWords } from './message-summary.ts'
import { isThere, type MediaProps, useBlob } from './use-blob.ts'

export function Voice(props: MediaProps) {
  const { blob, problem } = useBlob(props, isThere(props)).value
  const { item } = props
  const broken = useSignal(false)
  const canPlay =
    blob !== undefined && !broken.value && document.createElement('audio').canPlayType(blob.type) !== ''
  const why = problem || (blob && !canPlay ? t('chat.silk') : isThere(props) ? '' : t('chat.no_file'))
  return (
    <div class="voice">
      <div class="piece">
        {canPlay ? (
          <Player url={blob.url} playtime={item.playtime ?? 0} onError={set(broken, true)} />
        ) : (
          <>
            <Icon name="voice" />
            <span>
              {itemWords(item)}
              {why !== '' && <span class="small soft block">{why}</span>}
            </span>
          </>
        )}
        {problem === '' && <Download {...props} />}
      </div>
      {item.transcript && (
        <p class="transcript foreign" dir="auto">
          <span class="visually-hidden">{t('chat.transcript')} </span>
          {item.transcript}
        </p>
      )}
    </div>
  )
}

/** @param playtime in ms, as WeChat says; 0 if it does not. The file knows better */
function Player({ url, playtime, onError }: { url: string; playtime: number; onError(): void }) {
  const audio = useRef<HTMLAudioElement>(null)
  const playing = useSignal(false)
  const at = useSignal(0)
  const length = useSignal(playtime / 1000)
  return (
    <>
      <IconButton
        icon={playing.value ? 'pause' : 'play'}
        class="button icon-only primary round"
        label={t(playing.value ? 'chat.pause' : 'chat.play')}
        onClick={() => void (playing.value ? audio.current?.pause() : audio.current?.play())}
      />
      <input
        type="range"
        min={0}
        max={Math.max(length.value, 0.1)}
        step={0.05}
        value={at.value}
        aria-label={t('chat.position')}
        onInput={event => {
          if (audio.current) audio.current.currentTime = Number(event.currentTarget.value)
        }}
      />
      {/* biome-ignore lint/a11y/useMediaCaption: the transcript is below */}
      <audio
        ref={audio}
        src={url}
        onPlay={set(playing, true)}
        onPause={set(playing, false)}
        onTimeUpdate={event => {
          at.value = event.currentTarget.currentTime
        }}
        onLoadedMetadata={event => {
          if (Number.isFinite(event.currentTarget.duration)) length.value = event.currentTarget.duration
        }}
        onError={onError}
      />
      <span class="small soft">{length.value > 0 ? duration(length.value * 1000) : ''}</span>
    </>
  )
}
