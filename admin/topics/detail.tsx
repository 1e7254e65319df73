/** The side sheet of a topic: what waits and why, its address, its settings. */
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { errorText } from '../errors.ts'
import { isolated, number, t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { ago, left, relative, timeNow } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { Fact, State, Time } from '../ui/marks.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { rightOf } from '../users/reply-permission.tsx'
import type { Asked } from './ask.tsx'
import { addressOf, type Topic, type TopicState, topicCalls } from './topics.ts'
import { contactOf, looks, priorityTexts, reasons } from './words.ts'

interface DetailProps {
  topic: Topic
  onAsk(question: Asked): void
  onClose(): void
}

export function TopicDetail({ topic, onAsk, onClose }: DetailProps) {
  const { name } = topic
  const address = addressOf(name)
  return (
    <Sheet
      title={name}
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={() => onAsk({ what: 'change', topic })}>
            {t('topics.change')}
          </button>
          <button type="button" class="button" onClick={() => onAsk({ what: 'remove', topic })}>
            {t('topics.remove')}
          </button>
        </>
      }
    >
      <Readiness topic={topic} />
      <section class="field">
        <h3>{t('topics.address')}</h3>
        {address ? <Copyable text={address} what={t('topics.address')} /> : t('access.no_rest')}
        <p class="soft small">{t('topics.address_about')}</p>
        {may('keys') && (
          <div>
            <button type="button" class="button small" onClick={() => onAsk({ what: 'key', topic })}>
              {t('topics.key')}
            </button>
          </div>
        )}
      </section>
      <section>
        <h3>{t('topics.what_waits')}</h3>
        <Notices topic={topic} />
      </section>
      <Facts topic={topic} />
    </Sheet>
  )
}

/** Whether WeChat allows to send now. */
function Readiness({ topic }: { topic: Topic }) {
  const right = rightOf(topic.session, topic.user_id)
  if (right.kind === 'open')
    return (
      <div>
        <State {...looks.open} />
        {right.until !== undefined && (
          <p class="soft small">
            {t('right.open_about', { count: right.answers, time: left(right.until - timeNow()) })}
          </p>
        )}
      </div>
    )
  const names = { account: isolated(topic.session), name: isolated(contactOf(topic)) }
  const isForContact = right.kind === 'closed' || right.kind === 'used'
  return (
    <div class={`notice ${looks[right.kind].tone}`}>
      <Icon name="warn" />
      <p>{t(isForContact ? 'topics.must_write' : 'topics.must_log_in', names)}</p>
    </div>
  )
}

function Notices({ topic: { name, waiting, sent } }: { topic: Topic }) {
  const { value, error } = useAnswer(
    useCallback(() => topicCalls.show(name), [name, waiting, sent]),
    2000,
    4000,
  )
  const all = value.value?.notices
  return (
    <>
      {error.value !== undefined && <p class="problem small">{errorText(error.value).title}</p>}
      {all?.length === 0 && <p class="soft small">{t('topics.nothing')}</p>}
      {all && all.length > 0 && (
        <ul class="deliveries">
          {all.map(one => (
            <NoticeLine key={one.id} one={one} />
          ))}
        </ul>
      )}
    </>
  )
}

function NoticeLine({ one }: { one: TopicState['notices'][number] }) {
  const { count, expires_at, name, priority, received_at, state, until, why = 'sending' } = one
  const when = until === undefined ? t('topics.expires', { when: relative(expires_at) }) : relative(until)
  return (
    <li>
      <p>
        <bdi>{count > 1 ? t('topics.repeated', { name: isolated(name), count }) : name}</bdi>
        {state === 'unknown' ? (
          <span class="small problem">{t('topics.unknown')}</span>
        ) : (
          <span class="soft small">
            {t(reasons[why])}
            {why !== 'sending' && ` · ${when}`}
          </span>
        )}
      </p>
      <div class="soft small">
        <Time at={received_at}>{ago(received_at)}</Time>
        <span>{t(priorityTexts[priority])}</span>
      </div>
    </li>
  )
}

function Facts({ topic }: { topic: Topic }) {
  const { answers, attach_private, digest, expired, keep_seconds, max_priority, min_priority } = topic
  const { quiet, sent, session, signed, template, user_id, zone } = topic
  const from = t(priorityTexts[min_priority])
  const options = [
    digest && t('topics.digest'),
    signed && t('topics.signed'),
    template !== undefined && t('topics.template'),
    attach_private && t('topics.private'),
  ].filter(option => option !== false)
  return (
    <dl>
      <Fact label={t('search.person')}>
        <Link href={hrefOf({ session, userId: user_id })}>
          <bdi>{contactOf(topic)}</bdi>
        </Link>
      </Fact>
      <Fact label={t('search.account')}>
        <bdi>{session}</bdi>
      </Fact>
      <Fact label={t('topics.urgency')}>
        {t('topics.from_to', { from, to: t(priorityTexts[max_priority]) })}
      </Fact>
      {quiet && (
        <Fact label={t('topics.quiet')}>
          {quiet} {zone}
        </Fact>
      )}
      <Fact label={t('topics.answers')}>{number(answers)}</Fact>
      <Fact label={t('topics.keep')}>{left(keep_seconds * 1000)}</Fact>
      {options.length > 0 && (
        <Fact label={t('webhooks.options')}>
          {options.map(option => (
            <span key={option} class="block">
              {option}
            </span>
          ))}
        </Fact>
      )}
      <Fact label={t('webhooks.tries')}>{t('topics.counts', { sent, expired })}</Fact>
    </dl>
  )
}
