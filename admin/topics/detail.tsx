/** The side sheet of a topic: what waits and why, its address, its settings. */
import { useCallback } from 'preact/hooks'
import { useAnswer } from '../answers.ts'
import { errorText } from '../errors.ts'
import { isolated, number, t } from '../i18n.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { ago, left, relative, timeNow } from '../times.ts'
import { Copyable } from '../ui/copy.tsx'
import { Link } from '../ui/link.tsx'
import { Fact, State, Time } from '../ui/marks.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { rightOf } from '../users/reply-permission.tsx'
import type { Asked } from './ask.tsx'
import { addressOf, type Person, type Topic, type TopicState, topicCalls } from './topics.ts'
import { contactOf, lookOf, priorityTexts, reasonText } from './words.ts'

interface DetailProps {
  topic: Topic
  onAsk(question: Asked): void
  onClose(): void
}

export function TopicDetail({ topic: listed, onAsk, onClose }: DetailProps) {
  const { name } = listed
  const { value, error } = useAnswer(
    useCallback(() => topicCalls.show(name), [listed]),
    2000,
    4000,
  )
  const topic: Topic = value.value ?? listed
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
            {t('webhooks.remove')}
          </button>
        </>
      }
    >
      <People topic={topic} onAsk={onAsk} />
      <section class="field">
        <h3>{t('webhooks.address')}</h3>
        {address ? <Copyable text={address} what={t('webhooks.address')} /> : t('access.no_rest')}
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
        {error.value !== undefined && <p class="problem small">{errorText(error.value).title}</p>}
        {value.value && <Notices topic={value.value} />}
      </section>
      <Facts topic={topic} />
    </Sheet>
  )
}

function People({ topic, onAsk }: Pick<DetailProps, 'topic' | 'onAsk'>) {
  const { people } = topic
  return (
    <section class="field">
      <h3>{t('search.person')}</h3>
      {people.map(person => (
        <div key={person.user_id}>
          <p>
            <Link href={hrefOf({ session: person.session, userId: person.user_id })}>
              <bdi>{contactOf(person)}</bdi>
            </Link>{' '}
            <span class="soft small">
              <bdi>{person.session}</bdi>
              {person.quiet && ` · ${t('topics.quiet')} ${person.quiet} ${person.time_zone ?? ''}`}
            </span>
          </p>
          <Readiness topic={topic} person={person} />
          <button type="button" class="link small" onClick={() => onAsk({ what: 'hours', topic, person })}>
            {t('topics.quiet')}
          </button>
          {people.length > 1 && ' · '}
          {people.length > 1 && (
            <button type="button" class="link small" onClick={() => onAsk({ what: 'leave', topic, person })}>
              {t('topics.leave')}
            </button>
          )}
        </div>
      ))}
      <div>
        <button type="button" class="button small" onClick={() => onAsk({ what: 'join', topic })}>
          {t('topics.join')}
        </button>
      </div>
    </section>
  )
}

/** What waits for a person, or whether WeChat allows to send now. */
function Readiness({ topic, person }: { topic: Topic; person: Person }) {
  const right = rightOf(person.session, person.user_id)
  return (
    <div class="sentence">
      <State {...lookOf({ ...topic, people: [person] })} />
      {topic.paused_until !== undefined && <p class="soft small">{t('topics.paused_about')}</p>}
      {right.kind === 'open' && right.until !== undefined && (
        <p class="soft small">
          {t('right.open_about', { count: right.answers, time: left(right.until - timeNow()) })}
        </p>
      )}
    </div>
  )
}

function Notices({ topic: { notices, people } }: { topic: TopicState }) {
  if (notices.length === 0) return <p class="soft small">{t('topics.nothing')}</p>
  return (
    <ul class="plain-list">
      {notices.map(one => (
        <NoticeLine key={`${one.id} ${one.user_id}`} one={one} people={people} />
      ))}
    </ul>
  )
}

function NoticeLine({ one, people }: Pick<TopicState, 'people'> & { one: TopicState['notices'][number] }) {
  const { count, expires_at, name, priority, received_at, status, until, user_id, why } = one
  const person = people.find(one => one.user_id === user_id)
  return (
    <li>
      <p>
        <bdi class="block">{count > 1 ? t('topics.repeated', { name: isolated(name), count }) : name}</bdi>
        {status === 'unknown' ? (
          <span class="small problem">{t('topics.unknown')}</span>
        ) : (
          <span class="soft small">
            {person && why ? t('topics.waits', { why: reasonText(one, person) }) : t('delivery.sending')}
            {why && until === undefined && ` · ${t('topics.expires', { when: relative(expires_at) })}`}
          </span>
        )}
      </p>
      <div class="soft small">
        <Time at={received_at}>{ago(received_at)}</Time> · <span>{t(priorityTexts[priority])}</span>
        {people.length > 1 && person && ` · ${isolated(contactOf(person))}`}
      </div>
    </li>
  )
}

function Facts({ topic }: { topic: Topic }) {
  const { answers, attach_private, digest, expired, keep_seconds, max_priority, min_priority } = topic
  const { quiet, sent, signed, template, template_missed, unknown_severities = {}, time_zone: zone } = topic
  const from = t(priorityTexts[min_priority])
  const options = [
    digest && t('topics.digest'),
    signed && t('topics.signed'),
    attach_private && t('topics.private'),
  ].filter(option => option !== false)
  const words = Object.entries(unknown_severities)
  return (
    <dl>
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
      {template !== undefined && (
        <Fact label={t('topics.template')}>
          <bdi class="block">{template}</bdi>
          {template_missed !== undefined && t('topics.template_missed', { count: template_missed })}
        </Fact>
      )}
      {words.length > 0 && (
        <Fact label={t('topics.unknown_words')}>
          {words.map(([word, count]) => (
            <span key={word} class="block">
              <bdi>{t('topics.repeated', { name: isolated(word || t('topics.other_words')), count })}</bdi>
            </span>
          ))}
          <p class="soft small">{t('topics.unknown_words_about')}</p>
        </Fact>
      )}
    </dl>
  )
}
