/** All pictures, videos, voices or files of a conversation, the newest first. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { api, type Message } from '../api.ts'
import { errorText } from '../errors.ts'
import { type TextKey, t } from '../i18n.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { ShortTime } from '../ui/marks.tsx'
import { Film, Picture, Plain } from './media.tsx'
import { hrefOf, type Place } from './place.ts'
import type { MediaProps } from './use-blob.ts'
import { Voice } from './voice.tsx'

const kinds: Readonly<Record<string, { text: TextKey; View: (props: MediaProps) => ComponentChildren }>> = {
  IMAGE: { text: 'gallery.pictures', View: Picture },
  VIDEO: { text: 'gallery.videos', View: Film },
  VOICE: { text: 'gallery.voices', View: Voice },
  FILE: { text: 'gallery.files', View: Plain },
}
const pageSize = 60

export function Gallery({ place }: { place: Place }) {
  const { session, userId } = place
  const kind = place.media in kinds ? place.media : 'IMAGE'
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
      const filter = { session, user_id: userId, msg_type: kind, limit: pageSize }
      const page = await api.messages({ ...filter, ...(before !== undefined && { before }) }, signal)
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
  const { View } = kinds[kind]!
  const isGrid = kind === 'IMAGE' || kind === 'VIDEO'
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so it must take the focus
    <section class="gallery" aria-label={t('gallery.title')} tabIndex={0} aria-busy={busy.value}>
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
        <Link
          class="button plain icon-only"
          href={hrefOf({ ...place, media: '' })}
          aria-label={t('gallery.back')}
          title={t('gallery.back')}
        >
          <Icon name="close" />
        </Link>
      </nav>
      {found.value?.length === 0 && <p class="soft">{t('gallery.none')}</p>}
      <ul class={isGrid ? 'grid' : ''}>
        {found.value?.flatMap(message => {
          let media = 0
          return message.items.map((item, nth) => {
            const index = item.has_media ? media++ : media
            if (item.kind !== kind) return null
            return (
              <li key={`${message.id} ${nth}`}>
                <InView tall={isGrid}>
                  <View {...{ message, item, index }} />
                </InView>
                <Link
                  class="small soft"
                  href={hrefOf({ ...place, media: '', m: message.id })}
                  title={t('gallery.show')}
                >
                  <span class="visually-hidden">{t('gallery.show')}: </span>
                  <ShortTime at={message.timestamp} />
                </Link>
              </li>
            )
          })
        })}
      </ul>
      {busy.value && found.value === undefined && (
        <p class="list-wait">
          <span class="spinner" role="img" aria-label={t('status.loading')} />
        </p>
      )}
      {error.value !== undefined && <p class="problem">{errorText(error.value).title}</p>}
      {(next.value !== undefined || error.value !== undefined) && (
        <button
          type="button"
          class="button more"
          aria-disabled={busy.value}
          onClick={() => !busy.value && void load(next.value)}
        >
          {t(error.value === undefined ? 'search.more' : 'action.retry')}
        </button>
      )}
    </section>
  )
}

/** What nobody scrolls to is not fetched: it may be many megabytes. */
function InView({ tall, children }: { tall: boolean; children: ComponentChildren }) {
  const seen = useSignal(false)
  const frame = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const observer = new IntersectionObserver(
      entries => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) seen.value = true
      },
      { rootMargin: '200px' },
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
