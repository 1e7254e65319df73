/**
 * Sends that wait in the outbox, for their user or for approval, and the buttons to approve or cancel them.
 */
import { call, type OutboxEntry, waitingFileUrl } from '../api.ts'
import { itemWords } from '../conversations/message-summary.ts'
import { isolated, type TextKey, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { hrefOf } from '../place.ts'
import { LoginFirst } from '../sessions/login-first.tsx'
import { accountOf } from '../sessions/names.ts'
import { ago, relative } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { tell } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import { Who } from '../users/avatar.tsx'

const mostShown = 20

export function Entries({ entries, onChange }: { entries: readonly OutboxEntry[]; onChange(): void }) {
  return (
    <div class="queue">
      <ul>
        {entries.slice(0, mostShown).map(entry => (
          <Entry key={entry.outbox_id} entry={entry} onChange={onChange} />
        ))}
      </ul>
      {entries.length > mostShown && (
        <p class="soft">{t('overview.more', { count: entries.length - mostShown })}</p>
      )}
    </div>
  )
}

function Entry({ entry, onChange }: { entry: OutboxEntry; onChange(): void }) {
  const { busy, work } = useWork()
  const { created_at, expires_at, outbox_id: id, session, to_user, waits_for } = entry
  const asks = waits_for === 'approval'
  const text = entry.parts.map(wordsOf).join(' · ').slice(0, 200)
  const button = (key: TextKey, about: TextKey, act: () => Promise<unknown>, done: TextKey, how = '') => (
    <button
      type="button"
      class={`button ${how}`}
      disabled={busy.value}
      aria-label={t(about, { text: text.slice(0, 80) })}
      onClick={() =>
        work(() =>
          act()
            .then(() => tell(t(done)))
            .finally(onChange),
        )
      }
    >
      {t(key)}
    </button>
  )
  const no = () => call('cancel_outbox', { id })
  return (
    <li class={asks ? 'asks' : ''}>
      <Link href={hrefOf({ session, userId: to_user })}>
        <Who session={session} id={to_user} />
      </Link>
      {asks ? (
        <Asked entry={entry} />
      ) : (
        <p class="cut">
          <bdi>{text}</bdi>
        </p>
      )}
      <p class="soft small">
        {asks && `${t('overview.asked', { name: isolated(session), when: ago(created_at) })} `}
        {t('overview.lapses', { when: relative(expires_at) })}
      </p>
      {asks ? (
        <div class="answers">
          {button('overview.decline', 'overview.decline_what', no, 'overview.called_off')}
          {accountOf(session)?.connected ? (
            button(
              'overview.approve',
              'overview.approve_what',
              () => call('approve_outbox', { id }),
              'overview.approved',
              'primary',
            )
          ) : (
            <LoginFirst name={session} />
          )}
        </div>
      ) : (
        button('chat.cancel_queued', 'overview.call_off_what', no, 'overview.called_off')
      )}
    </li>
  )
}

/** The full content, with files outside of the scrolling part. A person must see all that they approve. */
function Asked({ entry: { parts, session, to_user: to } }: { entry: OutboxEntry }) {
  const texts = parts.filter(({ kind }) => kind === 'text')
  return (
    <>
      {texts.length > 0 && (
        <blockquote
          class="asked foreign"
          aria-label={t('overview.asked_what', { name: isolated(nameOf(session, to) ?? to) })}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a long text is scrolled by keys
          tabIndex={0}
          dir="auto"
        >
          {texts.map(({ text }) => text).join('\n\n')}
        </blockquote>
      )}
      {parts.map(
        ({ id, kind, file_name, source }) =>
          kind !== 'text' && (
            <p key={id} class="asked-file">
              {kind === 'image' && <img src={waitingFileUrl(id)} alt="" loading="lazy" />}
              <Icon name={kind === 'image' ? 'image' : 'file'} size={16} />
              <a class="link" href={waitingFileUrl(id)} download>
                <bdi>{file_name}</bdi>
              </a>
              <bdi class="soft small">{source}</bdi>
            </p>
          ),
      )}
    </>
  )
}

const wordsOf = ({ kind, text, file_name }: OutboxEntry['parts'][number]): string =>
  kind === 'text'
    ? (text ?? '')
    : itemWords({ kind: kind.toUpperCase() as 'FILE', ...(file_name !== undefined && { file_name }) })
