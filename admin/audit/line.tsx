/** A line of the audit log: a sentence with links, the outcome, and all of it in a side sheet. */
import { isolated, t } from '../i18n.ts'
import { withParams } from '../place.ts'
import { ago, whole } from '../times.ts'
import { Link } from '../ui/link.tsx'
import { Fact, State, Time } from '../ui/marks.tsx'
import { Row, RowLink } from '../ui/rows.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { type Line, lookOf, reasonOf, type Subject, sentenceOf, subjectOf, whoOf } from './deeds.ts'

export function AuditRow({ line }: { line: Line }) {
  const { id, at, count } = line
  const about = [reasonOf(line), count === undefined ? '' : t('audit.times', { count })].filter(Boolean)
  return (
    <Row
      name={<Sentence line={line} href={withParams({ line: String(id) })} />}
      about={about.length > 0 && <bdi>{about.join(' · ')}</bdi>}
      end={
        <Time at={at} class="soft small">
          {ago(at)}
        </Time>
      }
    >
      <State {...lookOf(line)} />
    </Row>
  )
}

/** @param href where the row leads: its link is on the caller */
function Sentence({ line, href }: { line: Line; href: string }) {
  const subject = subjectOf(line)
  return (
    <>
      {sentenceOf(line, subject).map(({ text, part }, nth) => {
        const to = part === 'who' ? href : part === 'name' ? subject.href : undefined
        const named = part ? <bdi key={nth}>{text}</bdi> : text
        if (to === undefined) return named
        const Made = part === 'who' ? RowLink : Link
        return (
          <Made key={nth} href={to}>
            {named}
          </Made>
        )
      })}
    </>
  )
}

export function AuditDetail({ line, onClose }: { line: Line; onClose(): void }) {
  const { changed, draft_by = '', draft_by_name } = line
  const about = subjectOf(line)
  return (
    <Sheet
      title={sentenceOf(line, about)
        .map(({ text, part }) => (part ? isolated(text) : text))
        .join('')}
      onClose={onClose}
      footer={<RelatedLinks line={line} about={about} />}
    >
      <div>
        <State {...lookOf(line)} />
        <p class="soft small">{reasonOf(line)}</p>
        {draft_by !== '' && (
          <p class="soft small">
            {t(changed ? 'audit.drafted_changed' : 'audit.drafted', {
              who: isolated(whoOf({ principal: draft_by, name: draft_by_name })),
            })}
          </p>
        )}
      </div>
      <Facts line={line} />
    </Sheet>
  )
}

/** Links to the life of its message, to all about its contact, and to the chat. */
const RelatedLinks = ({ line: { messages }, about }: { line: Line; about: Subject }) => (
  <>
    {messages !== undefined && (
      // The parts of one send have one decision.
      <Link class="button" href={`/audit?message=${messages[0]}`}>
        {t('audit.life')}
      </Link>
    )}
    {about.user !== undefined && (
      <Link class="button" href={`/audit?${new URLSearchParams({ user: about.user })}`}>
        {t('audit.all_of_person')}
      </Link>
    )}
    {about.isChat && (
      <Link class="button" href={about.href ?? ''}>
        {t('audit.open_chat')}
      </Link>
    )}
  </>
)

function Facts({ line }: { line: Line }) {
  const { at, principal, operation, subject, outcome, address, count, request_id } = line
  const facts = [
    [t('audit.who'), principal],
    [t('audit.what'), operation],
    [t('audit.subject'), subject],
    [t('audit.outcome'), outcome],
    [t('webhooks.address'), address],
  ] as const
  return (
    <dl>
      <Fact label={t('search.time')}>
        <Time at={at}>{whole(at)}</Time>
      </Fact>
      {facts.map(
        ([label, text]) =>
          text !== undefined && (
            <Fact key={label} label={label}>
              <Code text={text} />
            </Fact>
          ),
      )}
      {request_id !== undefined && (
        <Fact label={t('audit.request')}>
          <Link href={`/audit?${new URLSearchParams({ request: request_id })}`}>
            <Code text={request_id} />
          </Link>
        </Fact>
      )}
      {count !== undefined && <Fact label={t('audit.calls')}>{t('audit.times', { count })}</Fact>}
    </dl>
  )
}

const Code = ({ text }: { text: string }) => (
  <code class="foreign" dir="ltr">
    {text}
  </code>
)
