/** The full-size view: one picture or video over the page, with steps to its neighbours. */
import { useComputed, useSignal } from '@preact/signals'
import type { TargetedPointerEvent } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { mediaUrl } from '../api.ts'
import { bytes, percent, t } from '../i18n.ts'
import { nameOf, peerOf } from '../live.ts'
import { whole } from '../times.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, IconButton } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { type Album, album } from './album.ts'
import type { Shape } from './blobs.ts'
import { Plain, Video } from './media.tsx'
import { type MediaProps, useBlob } from './use-blob.ts'
import { closer, farther, useZoom } from './zoom.ts'

const close = () => {
  album.value = undefined
}

export function Lightbox() {
  const open = album.value
  // Close it when the conversation is left.
  useEffect(() => close, [])
  return open?.at.value ? <Open key={open.first.message.id} album={open} at={open.at.value} /> : null
}

const titles = {
  IMAGE: { received: 'lightbox.picture_from', sent: 'lightbox.picture_to' },
  VIDEO: { received: 'lightbox.video_from', sent: 'lightbox.video_to' },
} as const

function Open({ album, at }: { album: Album; at: MediaProps }) {
  const { message, item, index } = at
  const { direction, session, timestamp } = message
  const peer = peerOf(message)
  const beside = useMemo(closeOnClickBeside, [])
  useEffect(() => () => album.close(), [album])
  // Before the first drawing: a key that is pressed right after it is not lost.
  useLayoutEffect(() => {
    const onKey = ({ key, ctrlKey, metaKey, altKey, shiftKey, target }: KeyboardEvent) => {
      // A video handles its keys itself.
      if (ctrlKey || metaKey || altKey || shiftKey || target instanceof HTMLVideoElement) return
      if (key === 'ArrowLeft') album.go(-1)
      if (key === 'ArrowRight') album.go(1)
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [album])
  const title = titles[item.kind === 'VIDEO' ? 'VIDEO' : 'IMAGE'][direction]
  return (
    <Dialog
      large
      title={t(title, { user: nameOf(session, peer) ?? peer })}
      description={whole(timestamp)}
      onClose={close}
      tools={message.id > 0 ? <Tools url={mediaUrl(message, index)} /> : undefined}
    >
      <div class="stage-frame">
        {item.kind === 'VIDEO' ? (
          <div class="stage" {...beside}>
            <Video
              key={`${message.id} ${index}`}
              {...at}
              large
              plays={at.message.id === album.first.message.id}
            />
          </div>
        ) : (
          <Photo key={`${message.id} ${index}`} {...at} album={album} />
        )}
        <StepButton album={album} step={-1} />
        <StepButton album={album} step={1} />
      </div>
      {/* Load the neighbours ahead. */}
      {[album.before.value, album.after.value].map(
        one => one?.item.kind === 'IMAGE' && <Ahead key={`${one.message.id} ${one.index}`} {...one} />,
      )}
    </Dialog>
  )
}

/** Opens the file in a tab of its own, or saves it. */
const Tools = ({ url }: { url: string }) => (
  <>
    <a
      class="button plain icon-only"
      href={url}
      target="_blank"
      rel="noreferrer"
      aria-label={t('lightbox.open')}
      title={t('lightbox.open')}
    >
      <Icon name="open" />
    </a>
    <a
      class="button plain icon-only"
      href={url}
      download
      aria-label={t('chat.download')}
      title={t('chat.download')}
    >
      <Icon name="download" />
    </a>
  </>
)

/**
 * Handlers that close the view on a click beside the picture. A drag or a swipe does not count as a click.
 */
function closeOnClickBeside() {
  let from: PointerEvent | undefined
  return {
    onPointerDown(event: TargetedPointerEvent<HTMLElement>) {
      from = event.target === event.currentTarget ? event : undefined
    },
    onClick({ clientX, clientY }: MouseEvent) {
      if (from && Math.hypot(clientX - from.clientX, clientY - from.clientY) < 4) close()
    },
  }
}

function Ahead(props: MediaProps) {
  useBlob(props, true)
  return null
}

function StepButton({ album, step }: { album: Album; step: 1 | -1 }) {
  const isEnd = (step === 1 ? album.after : album.before).value === undefined
  return (
    <IconButton
      icon={step === 1 ? 'next' : 'back'}
      class={`step button icon-only ${step === 1 ? 'next' : 'previous'}`}
      label={t(step === 1 ? 'lightbox.next' : 'lightbox.previous')}
      aria-disabled={isEnd}
      onClick={() => album.go(step)}
    />
  )
}

/** The moves of a zoomed picture by key, px. */
const strides: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [0, 80],
  ArrowDown: [0, -80],
  PageUp: [0, 400],
  PageDown: [0, -400],
  'Shift+ArrowLeft': [80, 0],
  'Shift+ArrowRight': [-80, 0],
}

function Photo({ album, ...props }: MediaProps & { album: Album }) {
  const { blob, problem, bytes: loaded } = useBlob(props, true).value
  const broken = useSignal(false)
  const natural = useSignal<Shape | undefined>(undefined)
  const stage = useRef<HTMLDivElement>(null)
  const zoom = useZoom(stage, natural, step => album.go(step))
  const beside = useMemo(closeOnClickBeside, [])
  const transform = useComputed(() => {
    const { x, y, zoom: by } = zoom.view.value
    return `translate(-50%, -50%) translate(${x}px, ${y}px) scale(${by})`
  })
  useZoomKeys(zoom)
  const size = zoom.size.value
  const trouble = problem || (broken.value ? t('chat.not_shown') : '')
  return (
    <>
      <div class={`stage${zoom.isClose.value ? ' close' : ''}`} ref={stage} {...beside}>
        {trouble !== '' ? (
          <Plain {...props} problem={trouble} />
        ) : (
          blob && (
            <img
              src={blob.url}
              alt={t('chat.picture')}
              draggable={false}
              class={size ? '' : 'coming'}
              style={{
                inlineSize: `${size?.width ?? 0}px`,
                blockSize: `${size?.height ?? 0}px`,
                transform: transform.value,
              }}
              onError={set(broken, true)}
              onLoad={({ currentTarget: { naturalWidth: width, naturalHeight: height } }) => {
                if (width && height) natural.value = { width, height }
                else broken.value = true
              }}
            />
          )
        )}
        {trouble === '' && !size && (
          <p class="coming-words" role="status">
            <span class="spinner" role="img" aria-label={t('status.loading')} />
            {!blob && loaded > 0 && bytes(loaded)}
          </p>
        )}
      </div>
      {size && <ZoomBar zoom={zoom} />}
    </>
  )
}

type Zoom = ReturnType<typeof useZoom>

function useZoomKeys(zoom: Zoom): void {
  // Before the first drawing: a key that is pressed right after it is not lost.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { key, shiftKey, ctrlKey, metaKey, altKey } = event
      if (ctrlKey || metaKey || altKey) return
      const stride = strides[shiftKey ? `Shift+${key}` : key]
      if (key === '+' || key === '=') zoom.by(closer)
      else if (key === '-' || key === '_') zoom.by(farther)
      else if (key === '0') zoom.fit()
      else if (stride) zoom.move(...stride)
      else return
      event.preventDefault()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}

const ZoomBar = ({ zoom }: { zoom: Zoom }) => (
  <div class="zoom">
    <IconButton
      icon="less"
      label={t('lightbox.smaller')}
      aria-disabled={!zoom.isClose.value}
      onClick={() => zoom.by(farther)}
    />
    <button type="button" class="button plain" title={t('lightbox.fit')} onClick={zoom.fit}>
      <span class="visually-hidden">{t('lightbox.fit')}: </span>
      {percent(zoom.scale.value)}
    </button>
    <IconButton
      icon="add"
      label={t('lightbox.larger')}
      aria-disabled={zoom.isClosest.value}
      onClick={() => zoom.by(closer)}
    />
  </div>
)
