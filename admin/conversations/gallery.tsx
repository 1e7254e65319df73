/** All pictures, videos, voices or files of a conversation, the newest first. */
import { useSignal } from '@preact/signals'
import { type ComponentChildren, Fragment, type TargetedKeyboardEvent } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { call, type Message } from '../api.ts'
import { errorText } from '../errors.ts'
import { bytes, type TextKey, t } from '../i18n.ts'
import { online } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { narrow } from '../screen.ts'
import { navigate } from '../service-urls.ts'
import { month } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { ShortTime } from '../ui/marks.tsx'
import { openFullSize } from './album.ts'
import { Picture, Plain } from './media.tsx'
import { isThere, type MediaProps, mediaOf } from './use-blob.ts'
import { Voice } from './voice.tsx'

interface Kind {
  text: TextKey
  View: (props: MediaProps) => ComponentChildren
}
type MediaKind = 'IMAGE' | 'VIDEO' | 'VOICE' | 'FILE'
const kinds: Readonly<Record<MediaKind, Kind>> = {
  IMAGE: { text: 'gallery.pictures', View: Picture },
  VIDEO: { text: 'gallery.videos', View: VideoTile },
  VOICE: { text: 'gallery.voices', View: Voice },
  FILE: { text: 'gallery.files', View: Plain },
}
const pageSize = 60

export function Gallery({ place }: { place: Place }) {
  const kind = place.media in kinds ? (place.media as MediaKind) : 'IMAGE'
  const pages = usePages(place, kind)
  const { found, busy } = pages
  const frame = useRef<HTMLElement>(null)
  // The menu that opened it keeps no focus.
  useEffect(() => frame.current?.focus({ preventScroll: true }), [])
  const back = hrefOf({ ...place, media: '' })
  return (
    <section
      ref={frame}
      class="gallery"
      aria-label={t('gallery.title')}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so it must take the focus
      tabIndex={0}
      aria-busy={busy.value}
      onKeyDown={event => {
        if (event.key === 'Escape') navigate(back)
        else moveFocus(event)
      }}
    >
      <Kinds place={place} kind={kind} back={back} />
      {found.value?.length === 0 && <p class="soft">{t('gallery.none')}</p>}
      <Months messages={found.value ?? []} kind={kind} place={place} />
      <More pages={pages} />
    </section>
  )
}

/** The messages with media of a kind, page by page. */
function usePages({ session, userId }: Place, kind: MediaKind) {
  const found = useSignal<readonly Message[] | undefined>(undefined)
  const next = useSignal<number | undefined>(undefined)
  const error = useSignal<unknown>(undefined)
  const busy = useSignal(false)
  const gone = useRef(new AbortController())
  const load = async (before?: number) => {
    const { signal } = gone.current
    busy.value = true
    error.value = undefined
    try {
      const page = await call(
        'list_messages',
        { session, user_id: userId, msg_type: kind, limit: pageSize, before },
        { signal },
      )
      if (signal.aborted) return
      found.value = [...(before === undefined ? [] : (found.value ?? [])), ...page.messages]
      next.value = page.next_before
    } catch (problem) {
      if (signal.aborted) return
      error.value = problem
    }
    busy.value = false
  }
  useEffect(() => {
    gone.current = new AbortController()
    found.value = undefined
    next.value = undefined
    void load()
    return () => gone.current.abort()
  }, [session, userId, kind])
  const isOnline = online.value
  useEffect(() => {
    if (isOnline && error.peek() !== undefined) void load(next.peek())
  }, [isOnline])
  return { found, next, error, busy, load }
}

/** The choice of a kind, and the way back to the messages. */
const Kinds = ({ place, kind, back }: { place: Place; kind: MediaKind; back: string }) => (
  <nav aria-label={t('gallery.title')}>
    {Object.entries(kinds).map(([media, { text }]) => (
      <Link
        key={media}
        class="button plain"
        href={hrefOf({ ...place, media, m: undefined })}
        {...(media === kind && { 'aria-current': 'page' as const })}
      >
        {t(text)}
      </Link>
    ))}
    <Link class="button plain icon-only" href={back} aria-label={t('gallery.back')} title={t('gallery.back')}>
      <Icon name="close" />
    </Link>
  </nav>
)

interface MonthsProps {
  messages: readonly Message[]
  kind: MediaKind
  place: Place
}

function Months({ messages, kind, place }: MonthsProps) {
  const { View } = kinds[kind]
  const isGrid = kind === 'IMAGE' || kind === 'VIDEO'
  // One level below the heading of the chat.
  const Heading = narrow.value ? 'h2' : 'h3'
  const months = monthsOf(messages.flatMap(mediaOf).filter(({ item }) => item.kind === kind))
  return months.map(({ name, media }) => (
    <Fragment key={name}>
      <Heading>{name}</Heading>
      <ul class={isGrid ? 'grid' : ''}>
        {media.map(one => (
          <li key={`${one.message.id} ${one.message.items.indexOf(one.item)}`}>
            <InView tall={isGrid}>
              <View {...one} />
            </InView>
            <Link
              class="small soft when"
              href={hrefOf({ ...place, media: '', m: one.message.id })}
              title={t('gallery.show')}
            >
              <span class="visually-hidden">{t('gallery.show')}: </span>
              <ShortTime at={one.message.timestamp} />
              {isGrid && one.item.size !== undefined && ` · ${bytes(one.item.size)}`}
            </Link>
          </li>
        ))}
      </ul>
    </Fragment>
  ))
}

/** What is below the media: that they load, that this failed, the way to older ones. */
function More({ pages: { found, next, error, busy, load } }: { pages: ReturnType<typeof usePages> }) {
  const hasFailed = error.value !== undefined
  return (
    <>
      {busy.value && found.value === undefined && (
        <p class="list-wait">
          <span class="spinner" role="img" aria-label={t('status.loading')} />
        </p>
      )}
      {hasFailed && <p class="problem">{errorText(error.value).title}</p>}
      {(next.value !== undefined || hasFailed) && (
        <button
          type="button"
          class="button more"
          aria-disabled={busy.value}
          onClick={() => !busy.value && void load(next.value)}
        >
          {t(hasFailed ? 'action.retry' : 'search.more')}
        </button>
      )}
    </>
  )
}

/** A video, which plays in the full-size view. */
function VideoTile(props: MediaProps) {
  if (!isThere(props)) return <Plain {...props} problem={t('chat.no_file')} />
  return (
    <button type="button" class="video" aria-haspopup="dialog" onClick={() => openFullSize(props)}>
      <span class="visually-hidden">
        {t('chat.play')}: {t('chat.video')}
      </span>
      <span class="disc">
        <Icon name="play" size={28} />
      </span>
    </button>
  )
}

/** Media by month, the newest first. */
function monthsOf(all: readonly MediaProps[]): { name: string; media: MediaProps[] }[] {
  const months = new Map<string, MediaProps[]>()
  for (const one of all) {
    const name = month(one.message.timestamp)
    const media = months.get(name)
    if (media) media.push(one)
    else months.set(name, [one])
  }
  return [...months].map(([name, media]) => ({ name, media }))
}

/** Moves the focus by the arrow keys, Home and End, along the rows and columns of the page. */
function moveFocus(event: TargetedKeyboardEvent<HTMLElement>): void {
  const target = event.target as HTMLElement
  const at = target.closest('li')
  if (!at || target.matches('input') || event.ctrlKey || event.metaKey || event.altKey) return
  const all = [...event.currentTarget.querySelectorAll('li')]
  const here = at.getBoundingClientRect()
  /** The nearest item of the next row above or below. */
  const across = (step: 1 | -1) => {
    const boxes = all.map(one => ({ one, box: one.getBoundingClientRect() }))
    const beyond = boxes.filter(({ box }) => (box.top - here.top) * step > 1)
    const distance = ({ box }: (typeof boxes)[number]) =>
      Math.abs(box.top - here.top) * 100 + Math.abs(box.left - here.left)
    return beyond.sort((one, other) => distance(one) - distance(other))[0]?.one
  }
  const index = all.indexOf(at)
  const targets: Readonly<Record<string, () => HTMLElement | undefined>> = {
    ArrowRight: () => all[index + 1],
    ArrowLeft: () => all[index - 1],
    ArrowDown: () => across(1),
    ArrowUp: () => across(-1),
    Home: () => all[0],
    End: () => all.at(-1),
  }
  const to = targets[event.key]?.()
  if (!to) return
  event.preventDefault()
  to.scrollIntoView({ block: 'nearest' })
  // An item that was outside of the view must be drawn first.
  const focus = (tries: number) => {
    const isDrawn = to.querySelector('.tile, .strip')?.firstElementChild
    if (!isDrawn && tries > 0) requestAnimationFrame(() => focus(tries - 1))
    else to.querySelector<HTMLElement>('button, a')?.focus({ preventScroll: true })
  }
  focus(60)
}

/** Renders its children once they come near the view. Media that nobody scrolls to is not fetched. */
function InView({ tall, children }: { tall: boolean; children: ComponentChildren }) {
  const seen = useSignal(false)
  const frame = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const observer = new IntersectionObserver(
      entries => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) seen.value = true
      },
      { root: frame.current!.closest('.gallery'), rootMargin: '400px' },
    )
    observer.observe(frame.current!)
    return () => observer.disconnect()
  }, [])
  return (
    <div ref={frame} class={tall ? 'tile' : 'strip'}>
      {seen.value && children}
    </div>
  )
}
