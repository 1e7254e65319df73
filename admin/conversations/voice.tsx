/** A voice message with a player, if the browser supports the format, and WeChat's transcript. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { Download } from './media.tsx'
import { duration, itemWords } from './message-summary.ts'
import { isThere, type MediaProps, useBlob } from './use-blob.ts'

export function Voice(props: MediaProps) {
  const held = useBlob(props, isThere(props))
  const { blob, problem } = held.value
  const { item } = props
  const audio = useRef<HTMLAudioElement>(null)
  const playing = useSignal(false)
  const at = useSignal(0)
  const length = useSignal((item.playtime ?? 0) / 1000)
  const broken = useSignal(false)
  const canPlay =
    blob !== undefined && !broken.value && document.createElement('audio').canPlayType(blob.type) !== ''
  const silk = blob !== undefined && !canPlay
  return (
    <div class="voice">
      <div class="piece">
        {canPlay ? (
          <>
            <button
              type="button"
              class="button icon-only primary round"
              aria-label={t(playing.value ? 'chat.pause' : 'chat.play')}
              onClick={() => void (playing.value ? audio.current?.pause() : audio.current?.play())}
            >
              <Icon name={playing.value ? 'pause' : 'play'} />
            </button>
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
              src={blob.url}
              onPlay={set(playing, true)}
              onPause={set(playing, false)}
              onTimeUpdate={event => {
                at.value = event.currentTarget.currentTime
              }}
              onLoadedMetadata={event => {
                if (Number.isFinite(event.currentTarget.duration)) length.value = event.currentTarget.duration
              }}
              onError={set(broken, true)}
            />
            <span class="small soft">{length.value > 0 ? duration(length.value * 1000) : ''}</span>
          </>
        ) : (
          <>
            <Icon name="voice" />
            <span>
              {itemWords(item)}
              {(silk || problem !== '' || !isThere(props)) && (
                <span class="small soft block">{problem || (silk ? t('chat.silk') : t('chat.no_file'))}</span>
              )}
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
