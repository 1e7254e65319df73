/** When agents are to do something: for one person in the sheet, for all on the page. */
import { useSignal } from '@preact/signals'
import { ApiError, call, type Input } from '../api.ts'
import { errorText } from '../errors.ts'
import { isolated, t } from '../i18n.ts'
import { callerName } from '../rights.ts'
import { Ask } from '../ui/ask.tsx'
import { Choice } from '../ui/choice.tsx'
import { Field } from '../ui/field.tsx'
import { State, Time } from '../ui/marks.tsx'
import { type Action, Menu } from '../ui/menu.tsx'
import { Row, Rows } from '../ui/rows.tsx'
import { tell } from '../ui/toasts.tsx'
import { useWork } from '../ui/work.ts'
import { Avatar } from '../users/avatar.tsx'
import { nameOfTalk } from './list.tsx'
import { type AgentTalk, type AgentTime, lookOfTime, nextText, personOf, ruleOf } from './words.ts'

export interface TimesProps {
  times: readonly AgentTime[]
  talks: readonly AgentTalk[]
  onAsk(asked: AskedTime): void
  onAct(): void
}

const Add = ({ onAdd }: { onAdd(): void }) => (
  <div>
    <button type="button" class="button small" onClick={onAdd}>
      {t('agents.time_add')}
    </button>
  </div>
)

export const AllTimes = (props: TimesProps) => (
  <section aria-labelledby="times">
    <h2 id="times">{t('agents.times')}</h2>
    {props.times.length === 0 ? <p class="soft small">{t('agents.times_none')}</p> : <List {...props} />}
    {props.talks.length > 0 && <Add onAdd={() => props.onAsk({ what: 'add' })} />}
  </section>
)

export function PersonTimes({ talk, ...props }: TimesProps & { talk: AgentTalk }) {
  const own = props.times.filter(one => personOf(one) === personOf(talk))
  return (
    <section class="own-times" aria-labelledby="own-times">
      <h3 id="own-times">{t('agents.times')}</h3>
      {own.length > 0 && <List {...props} times={own} isOfOne />}
      <Add onAdd={() => props.onAsk({ what: 'add', talk })} />
    </section>
  )
}

/** @param isOfOne all are of one person, who is named above them */
const List = ({ isOfOne = false, ...props }: TimesProps & { isOfOne?: boolean }) => (
  <Rows label={t('agents.times')} class="agent-times">
    {props.times.map(one => (
      <One key={one.id} time={one} isOfOne={isOfOne} {...props} />
    ))}
  </Rows>
)

function One({ time, talks, isOfOne, onAct, onAsk }: TimesProps & { time: AgentTime; isOfOne: boolean }) {
  const { agent, id, made_by, next_at, paused, prompt, session, user_id: userId, when, zone } = time
  const { work } = useWork()
  const talk = talks.find(one => personOf(one) === personOf(time))
  const who = isolated(nameOfTalk(talk ?? time))
  const look = lookOfTime(time)
  const rule = ruleOf(time)
  const again = () =>
    work(() =>
      addTime({ session, user: userId, when, zone, prompt: prompt!, ...(agent && { agent }) }, onAct),
    )
  const about = [
    // As people write it in the chat.
    `/cancel ${id}`,
    agent ?? t('agents.chosen'),
    !isOfOne && who,
    t('agents.set_by', { who: callerName(made_by) }),
  ]
  const remove = () => onAsk({ what: 'cancel', time })
  const actions: Action[] = [
    { id: 'cancel', label: t('webhooks.remove'), icon: 'erase', danger: true, run: remove },
  ]
  // What was to be done once is over by now.
  if (paused === 'copy' && prompt !== undefined && when.startsWith('every'))
    actions.unshift({ id: 'again', label: t('login.again'), icon: 'play', run: again })
  return (
    <Row
      lead={!isOfOne && <Avatar session={session} id={userId} small />}
      name={
        <bdi class="foreign" title={prompt}>
          {prompt ?? rule}
        </bdi>
      }
      about={about.filter(Boolean).join(' · ')}
      end={<Menu label={t('agents.more', { name: isolated(prompt ?? rule) })} actions={actions} />}
    >
      <span class="small">{rule}</span>
      {next_at !== undefined && (
        <Time at={next_at} class="small">
          {nextText(next_at, zone)} <span class="soft">{zone}</span>
        </Time>
      )}
      {look && <State {...look} />}
    </Row>
  )
}

/** The open dialog. `talk` is of the person for whom a time is added. */
export type AskedTime = { what: 'add'; talk?: AgentTalk } | { what: 'cancel'; time: AgentTime }

interface AskTimeProps {
  asked: AskedTime
  talks: readonly AgentTalk[]
  onAct(): void
  onClose(): void
}

export const AskTime = ({ asked, ...rest }: AskTimeProps) =>
  asked.what === 'add' ? <AddTime talk={asked.talk} {...rest} /> : <CancelTime time={asked.time} {...rest} />

type Rest = Omit<AskTimeProps, 'asked'>

function CancelTime({ time, onAct, onClose }: Rest & { time: AgentTime }) {
  const { id, prompt } = time
  return (
    <Ask
      alert
      title={t('agents.time_cancel_title')}
      action={t('webhooks.remove')}
      danger
      onClose={onClose}
      run={async () => {
        await call('cancel_agent_time', { id })
        onAct()
        onClose()
      }}
    >
      <p class="foreign">{prompt}</p>
      <p class="soft">{ruleOf(time)}</p>
    </Ask>
  )
}

async function addTime(input: Input<'add_agent_time'>, onAct: () => void): Promise<void> {
  const { next_at, when, zone } = await call('add_agent_time', input)
  tell(t('agents.time_added', { time: next_at === undefined ? when : nextText(next_at, zone) }))
  onAct()
}

/** A problem, and the field below which it stands; '' for all of them. */
interface Problem {
  field: string
  text: string
}

function AddTime({ talk, talks, onAct, onClose }: Rest & { talk: AgentTalk | undefined }) {
  const people = talk ? [talk] : [...Map.groupBy(talks, personOf).values()].map(([first]) => first!)
  const chosen = useSignal(people[0]!)
  const problem = useSignal<Problem>({ field: '', text: '' })
  const problemOf = (field: string) => (problem.value.field === field ? problem.value.text : '')
  const { session, user_id: user } = chosen.value
  const run = async (form: FormData) => {
    const [when = '', prompt = '', agent = ''] = ['when', 'prompt', 'agent'].map(name =>
      String(form.get(name) ?? '').trim(),
    )
    if (when === '') problem.value = { field: 'when', text: t('agents.when_bad') }
    else if (prompt === '') problem.value = { field: 'prompt', text: t('agents.what_none') }
    else {
      await addTime({ user, session, when, prompt, ...(agent && { agent }) }, onAct)
      onClose()
    }
  }
  const failed = (error: unknown) => {
    problem.value = problemIn(error)
  }
  return (
    <Ask
      title={t('agents.time_add')}
      action={t('agents.time_add')}
      onClose={onClose}
      run={run}
      onError={failed}
    >
      <PersonChoice
        people={people}
        onChange={next => {
          chosen.value = next
        }}
      />
      <Field
        label={t('agents.when')}
        about={t('agents.when_about')}
        problem={problemOf('when')}
        input={{ name: 'when', maxLength: 100, 'data-autofocus': true }}
      />
      <Field
        label={t('agents.what')}
        problem={problemOf('prompt')}
        rows={3}
        input={{ name: 'prompt', maxLength: 100_000 }}
      />
      <AgentChoice talks={talks.filter(one => personOf(one) === personOf(chosen.value))} />
      <p class="problem" role="alert">
        {problemOf('')}
      </p>
    </Ask>
  )
}

function PersonChoice({ people, onChange }: { people: AgentTalk[]; onChange(next: AgentTalk): void }) {
  if (people.length === 1) return <p class="soft">{isolated(nameOfTalk(people[0]!))}</p>
  return (
    <Choice label={t('search.person')} onChange={value => onChange(people[Number(value)]!)}>
      {people.map((one, nth) => (
        <option key={personOf(one)} value={nth}>
          {isolated(nameOfTalk(one))}
        </option>
      ))}
    </Choice>
  )
}

/** The agents of a person, if there are several. */
function AgentChoice({ talks }: { talks: AgentTalk[] }) {
  if (talks.length < 2) return null
  return (
    <Choice label={t('invite.agent')} name="agent">
      <option value="">{t('agents.chosen')}</option>
      {talks.map(({ agent }) => (
        <option key={agent} value={agent}>
          {agent}
        </option>
      ))}
    </Choice>
  )
}

/** Returns what is wrong, with the field below which it stands. */
function problemIn(error: unknown): Problem {
  const { hint, title } = errorText(error)
  const { errors, meant } = error instanceof ApiError ? error.details : {}
  const field = errors?.[0]?.field
  if (field === 'when')
    return {
      field,
      text: meant === undefined ? t('agents.when_bad') : t('agents.when_unsure', { time: meant }),
    }
  return { field: field === 'prompt' ? field : '', text: `${title} ${hint}` }
}
