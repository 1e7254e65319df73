/** Pictures, videos and files of a message. */
import { useSignal } from '@preact/signals'
import { useMemo } from 'preact/hooks'
import { mediaUrl, waits } from '../api.ts'
import { bytes, t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { openFullSize } from './album.ts'
import { knownShape, learnShape, type Shape } from './blobs.ts'
import { fileName, itemWords } from './message-summary.ts'
import { isThere, type MediaProps, useBlob } from './use-blob.ts'

const box: Shape = { width: 264, height: 320 }
/** The box for a picture of unknown size: a middle size, so that little moves when the picture comes. */
const unknownShape: Shape = { width: 160, height: 120 }
/** The smallest picture with the time on it. On smaller ones the time is below. */
const room: Shape = { width: 96, height: 72 }
/** The smallest size that a finger can press. */
const tap: Shape = { width: 24, height: 24 }

/** Scales a shape to fit the box, by at most `most`, and to at least `least`. */
function fitted({ width, height }: Shape, most: number, least: Shape): Shape {
  const scale = Math.min(most, box.width / width, box.height / height)
  return {
    width: Math.max(least.width, Math.round(width * scale)),
    height: Math.max(least.height, Math.round(height * scale)),
  }
}

const shapeOf = ({ message, item: { width, height }, index }: MediaProps): Shape => {
  const known = knownShape(message.id, index)
  // Never enlarge a picture. WeChat gives the size of a thumbnail, so only its proportions are used.
  if (known) return fitted(known, 1, tap)
  return width && height ? fitted({ width, height }, Number.POSITIVE_INFINITY, room) : unknownShape
}

/** A link to the file. */
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
  // `learned` changes when the size becomes known.
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
      onClick={() => openFullSize({ message, item, index })}
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
            // Keep the reserved box, unless the picture is smaller.
            if (item.width && item.height && width >= shape.width && height >= shape.height) return
            learnShape(message.id, index, { width, height })
            learned.value++
          }}
        />
      )}
    </button>
  )
}

/** A video, which loads when it is pressed. With `large` it has its own shape. */
export function Video({ large, plays, ...props }: MediaProps & { large?: boolean; plays?: boolean }) {
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
        class="video"
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
    <button type="button" class="video" style={size} onClick={set(wanted, true)}>
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

/** A file, or other media that cannot be shown. */
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
