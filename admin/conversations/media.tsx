/** Pictures, films and files inside a message. */
import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import { mediaUrl, waits } from '../api.ts'
import { bytes, t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { look } from './album.ts'
import { knownShape, learnShape, type Shape } from './blobs.ts'
import { fileName, itemWords } from './message-summary.ts'
import { isThere, type MediaProps, useBlob } from './use-blob.ts'

const box: Shape = { width: 264, height: 320 }
/** Between a picture that fills the box and a small one: neither is to move much when it comes. */
const unknownShape: Shape = { width: 160, height: 120 }
/** On less the time has no room: it stands below. */
const room: Shape = { width: 96, height: 72 }
/** What a finger can press. */
const tap: Shape = { width: 24, height: 24 }

/** Fills the box in one direction, as far as `most` allows; never less than `least`. */
function fitted({ width, height }: Shape, most: number, least: Shape): Shape {
  const scale = Math.min(most, box.width / width, box.height / height)
  return {
    width: Math.max(least.width, Math.round(width * scale)),
    height: Math.max(least.height, Math.round(height * scale)),
  }
}

const shapeOf = ({ message, item: { width, height }, index }: MediaProps): Shape => {
  const known = knownShape(message.id, index)
  // No picture is blown up. What WeChat names is the size of its small copy, and says the proportions alone.
  if (known) return fitted(known, 1, tap)
  return width && height ? fitted({ width, height }, Number.POSITIVE_INFINITY, room) : unknownShape
}

/** The way to the bytes themselves. */
export const Download = ({ message, index, item }: MediaProps) =>
  item.has_media || waits(message) ? (
    <a
      class="button plain icon-only download"
      href={mediaUrl(message, index)}
      download
      aria-label={`${t('chat.download')}: ${itemWords(item)}`}
      title={t('chat.download')}
    >
      <Icon name="download" />
    </a>
  ) : null

export function Picture(props: MediaProps) {
  const held = useBlob(props, true)
  const { message, item, index } = props
  const { blob, problem } = held.value
  const broken = useSignal(false)
  const learned = useSignal(0)
  // `learned` says when the shape is known.
  const shape = useMemo(() => shapeOf(props), [message.id, index, learned.value])
  const isTiny = shape.width < room.width || shape.height < room.height
  if (problem !== '' || broken.value || !isThere(props)) {
    return <Plain {...props} problem={problem || (broken.value ? t('chat.not_shown') : t('chat.no_file'))} />
  }
  return (
    <button
      type="button"
      class={`picture${blob ? '' : ' loading'}${isTiny ? ' tiny' : ''}`}
      style={{ inlineSize: `${shape.width}px`, aspectRatio: `${shape.width} / ${shape.height}` }}
      aria-label={t('chat.open_picture')}
      aria-haspopup="dialog"
      aria-busy={!blob}
      onClick={() => look({ message, item, index })}
    >
      {blob && (
        <img
          src={blob.url}
          alt=""
          decoding="async"
          draggable={false}
          onError={set(broken, true)}
          onLoad={event => {
            const { naturalWidth: width, naturalHeight: height, style } = event.currentTarget
            if (!width || !height) return
            style.maxInlineSize = `${width}px`
            style.maxBlockSize = `${height}px`
            // What was reserved stays, unless the picture is smaller.
            if (item.width && item.height && width >= shape.width && height >= shape.height) return
            learnShape(message.id, index, { width, height })
            learned.value++
          }}
        />
      )}
    </button>
  )
}

/** A film on the page, which comes when somebody wants it; in its own shape where it has all the room. */
export function Film({ large, plays, ...props }: MediaProps & { large?: boolean; plays?: boolean }) {
  const wanted = useSignal(plays ?? false)
  const broken = useSignal(false)
  const held = useBlob(props, wanted.value)
  const { blob, problem, bytes: loaded } = held.value
  const { item } = props
  const shape = shapeOf(props)
  if (problem !== '' || broken.value || !isThere(props))
    return <Plain {...props} problem={problem || (broken.value ? t('chat.not_shown') : t('chat.no_file'))} />
  const size = large
    ? {}
    : { inlineSize: `${Math.max(200, shape.width)}px`, aspectRatio: `${shape.width} / ${shape.height}` }
  if (blob) {
    return (
      // biome-ignore lint/a11y/useMediaCaption: WeChat sends no captions
      <video
        class="film"
        style={size}
        src={blob.url}
        controls
        autoplay
        playsInline
        aria-label={t('chat.video')}
        onError={set(broken, true)}
      />
    )
  }
  return (
    <button type="button" class="film" style={size} onClick={set(wanted, true)}>
      <span class="visually-hidden">
        {t('chat.play')}: {t('chat.video')}
      </span>
      <span class="disc">{wanted.value ? <span class="spinner" /> : <Icon name="play" size={28} />}</span>
      {(item.size !== undefined || loaded > 0) && (
        <span class="tag">
          {wanted.value && loaded > 0 ? `${bytes(loaded)} / ` : ''}
          {item.size === undefined ? '' : bytes(item.size)}
        </span>
      )}
    </button>
  )
}

/** A file, and whatever cannot be shown as what it is. */
export function Plain(props: MediaProps & { problem?: string }) {
  const { item, problem } = props
  const name = item.file_name ? fileName(item.file_name) : itemWords(item)
  const about = [
    problem ?? '',
    item.size !== undefined && item.kind === 'FILE' ? bytes(item.size) : '',
    problem || isThere(props) ? '' : t('chat.no_file'),
  ].filter(Boolean)
  return (
    <div class="piece">
      <span class="sheet">
        <Icon name={item.kind === 'IMAGE' ? 'image' : item.kind === 'VIDEO' ? 'play' : 'file'} />
      </span>
      <span class="grow">
        <span class="foreign name" dir="auto" title={name}>
          {name}
        </span>
        {about.length > 0 && <span class="small soft block">{about.join(' · ')}</span>}
      </span>
      <Download {...props} />
    </div>
  )
}
