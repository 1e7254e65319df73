/** The dialogs that add and change a topic. */
import { useSignal } from '@preact/signals'
import { ApiError, type Input } from '../api.ts'
import { errorText } from '../errors.ts'
import { isolated, t, timeFormat } from '../i18n.ts'
import { sessions } from '../live.ts'
import { setParams } from '../place.ts'
import { Ask } from '../ui/ask.tsx'
import { Choice } from '../ui/choice.tsx'
import { Field } from '../ui/field.tsx'
import { tell } from '../ui/toasts.tsx'
import { shortIdOf } from '../users/avatar.tsx'
import { type Person, type Priority, type Topic, topicCalls } from './topics.ts'
import { contactOf, priorityTexts } from './words.ts'

/** Adds a topic, then shows its detail with the address. */
export function AddTopic({ onClose }: { onClose(): void }) {
  const { problem, show } = useProblem()
  return (
    <Ask
      title={t('topics.add')}
      action={t('topics.add')}
      onClose={onClose}
      onError={error => show(isAboutName(error) ? t('topics.name_taken') : error)}
      run={async form => {
        show()
        const name = String(form.get('name')).trim()
        if (!/^[\p{L}\p{M}\p{N}_-]{1,64}$/u.test(name)) return show(t('topics.name_bad'))
        if (!form.has('to')) return show(t('overview.recent_none'))
        const [session, to] = JSON.parse(String(form.get('to'))) as [string, string]
        await topicCalls.add({ name, session, to: [to], ...settingsIn(form) })
        onClose()
        setParams({ topic: name })
      }}
    >
      <Field
        label={t('access.name')}
        about={t('topics.name_about')}
        input={{ name: 'name', maxLength: 64, placeholder: 'home', dir: 'ltr' }}
      />
      <ContactChoice />
      <details class="more-fields">
        <summary>{t('nav.settings')}</summary>
        <Settings />
      </details>
      {problem}
    </Ask>
  )
}

/** The contacts, but for those who are people of the topic. */
function ContactChoice({ people = [] }: Partial<Pick<Topic, 'people'>>) {
  const contacts = (sessions.value ?? [])
    .flatMap(({ name: session, users }) => users.map(user => ({ session, ...user })))
    .filter(({ user_id }) => !people.some(one => one.user_id === user_id))
    .sort((one, other) => (other.last_received ?? 0) - (one.last_received ?? 0))
  const isOneAccount = new Set(contacts.map(({ session }) => session)).size < 2
  return (
    <Choice label={t('search.person')} name="to">
      {contacts.map(({ name, session, user_id }) => (
        <option key={`${session} ${user_id}`} value={JSON.stringify([session, user_id])}>
          {isolated(name ?? shortIdOf(user_id))}
          {!isOneAccount && ` · ${session}`}
        </option>
      ))}
    </Choice>
  )
}

/** Adds a person to a topic. */
export function JoinTopic({ topic: { name, people }, onClose }: { topic: Topic; onClose(): void }) {
  const { problem, show } = useProblem()
  return (
    <Ask
      title={t('topics.join_title', { name: isolated(name) })}
      action={t('topics.join')}
      onClose={onClose}
      onError={show}
      run={async form => {
        show()
        if (!form.has('to')) return show(t('overview.recent_none'))
        const [, to] = JSON.parse(String(form.get('to'))) as [string, string]
        await topicCalls.change({ topic: name, add: [to] })
        tell(t('topics.changed'))
        onClose()
      }}
    >
      <ContactChoice people={people} />
      {problem}
    </Ask>
  )
}

const isAboutName = (error: unknown): boolean =>
  error instanceof ApiError && error.details.errors?.[0]?.field === 'name'

export function ChangeTopic({ topic, onClose }: { topic: Topic; onClose(): void }) {
  const { problem, show } = useProblem()
  return (
    <Ask
      title={t('topics.change_title', { name: isolated(topic.name) })}
      action={t('topics.change')}
      onClose={onClose}
      onError={show}
      run={async form => {
        show()
        await topicCalls.change({ topic: topic.name, ...settingsIn(form) })
        tell(t('topics.changed'))
        onClose()
      }}
    >
      <Settings topic={topic} />
      {problem}
    </Ask>
  )
}

/** Changes the quiet hours of one person. */
export function OwnHours({ topic, person, onClose }: { topic: Topic; person: Person; onClose(): void }) {
  const { problem, show } = useProblem()
  return (
    <Ask
      title={t('topics.quiet_title', { name: isolated(contactOf(person)) })}
      action={t('topics.change')}
      onClose={onClose}
      onError={show}
      run={async form => {
        show()
        await topicCalls.change({ topic: topic.name, user: person.user_id, time_zone: '', ...quietIn(form) })
        tell(t('topics.changed'))
        onClose()
      }}
    >
      <QuietFields
        {...person}
        time_zone={person.time_zone ?? topic.time_zone}
        about={t('topics.quiet_own_about')}
      />
      {problem}
    </Ask>
  )
}

/** Why the topic was not added or changed, below the fields. */
function useProblem() {
  const shown = useSignal('')
  return {
    show(error?: unknown) {
      const { hint, title } = error instanceof Error ? errorText(error) : { hint: '', title: error ?? '' }
      shown.value = `${title} ${hint}`
    },
    problem: (
      <p class="problem" role="alert">
        {shown.value}
      </p>
    ),
  }
}

const hourSeconds = 3600
const urgencies = Object.keys(priorityTexts) as Priority[]

function Settings({ topic }: { topic?: Topic }) {
  const {
    answers = 5,
    digest,
    keep_seconds = 86_400,
    max_priority = 'high',
    min_priority = 'min',
    template,
  } = topic ?? {}
  return (
    <>
      <div class="field-pair">
        <PriorityChoice label={t('topics.from')} name="min_priority" value={min_priority} />
        <PriorityChoice label={t('topics.at_most')} name="max_priority" value={max_priority} />
      </div>
      <ul class="soft small">
        {urgencies.map(priority => (
          <li key={priority}>
            <b>{t(priorityTexts[priority])}</b> {t(`topics.${priority}_about`)}
          </li>
        ))}
      </ul>
      <div class="choice">
        <label>
          <input type="checkbox" name="digest" defaultChecked={digest} />
          <span>{t('topics.digest')}</span>
        </label>
      </div>
      <QuietFields {...topic} about={t('topics.quiet_about')} />
      <Field
        label={t('topics.answers')}
        about={t('topics.answers_about')}
        input={{ name: 'answers', type: 'number', min: 1, max: 8, defaultValue: answers }}
      />
      <Field
        label={t('topics.keep_hours')}
        input={{ name: 'keep', type: 'number', min: 1, max: 168, defaultValue: keep_seconds / hourSeconds }}
      />
      <Field
        label={t('topics.secret')}
        about={t(topic?.signed ? 'topics.secret_kept' : 'topics.secret_about')}
        input={{ name: 'secret', type: 'password', maxLength: 200, autocomplete: 'new-password' }}
      />
      <Field
        label={t('topics.template')}
        about={t('topics.template_about')}
        rows={2}
        input={{
          name: 'template',
          maxLength: 4000,
          placeholder: '{{ .title }}: {{ .state }}',
          defaultValue: template,
        }}
      />
    </>
  )
}

function QuietFields({
  about,
  quiet = '',
  time_zone: zone,
}: Pick<Topic, 'quiet' | 'time_zone'> & { about: string }) {
  const [from, until] = quiet.split('-')
  const own = timeFormat({}).resolvedOptions().timeZone
  return (
    <>
      <div class="field-pair">
        <Field label={t('topics.quiet_from')} input={{ name: 'from', type: 'time', defaultValue: from }} />
        <Field label={t('topics.quiet_until')} input={{ name: 'until', type: 'time', defaultValue: until }} />
      </div>
      <Field
        label={t('topics.zone')}
        about={about}
        input={{ name: 'time_zone', dir: 'ltr', defaultValue: zone ?? own }}
      />
    </>
  )
}

/** Returns the quiet hours in a form; with one time alone, a text that is refused. */
function quietIn(form: FormData): { quiet: string; time_zone?: string } {
  const [from = '', until = '', zone = ''] = ['from', 'until', 'time_zone'].map(name =>
    String(form.get(name)).trim(),
  )
  return from || until ? { quiet: `${from}-${until}`, ...(zone && { time_zone: zone }) } : { quiet: '' }
}

const PriorityChoice = (props: { label: string; name: string; value: Priority }) => (
  <Choice {...props}>
    {urgencies.map(priority => (
      <option key={priority} value={priority}>
        {t(priorityTexts[priority])}
      </option>
    ))}
  </Choice>
)

function settingsIn(form: FormData): Omit<Input<'change_topic'>, 'topic'> {
  const textOf = (name: string) => String(form.get(name)).trim()
  const secret = textOf('secret')
  return {
    min_priority: textOf('min_priority') as Priority,
    max_priority: textOf('max_priority') as Priority,
    digest: form.has('digest'),
    ...quietIn(form),
    answers: Number(textOf('answers')),
    keep_seconds: Math.round(Number(textOf('keep')) * hourSeconds),
    template: textOf('template'),
    ...(secret !== '' && { secret }),
  }
}
