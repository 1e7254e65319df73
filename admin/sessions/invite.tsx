/** The invitations as a list, and the dialogs that make and revoke one. Loaded when one of them is opened. */
import { useSignal } from '@preact/signals'
import { useEffect, useId } from 'preact/hooks'
import { ApiError, call, type Input } from '../api.ts'
import { isolated, number, t } from '../i18n.ts'
import { setParams, withParams } from '../place.ts'
import { may } from '../rights.ts'
import { ago, now, relative, timeNow } from '../times.ts'
import { Ask, Consequence, useAsked } from '../ui/ask.tsx'
import { Choice } from '../ui/choice.tsx'
import { Copyable } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field } from '../ui/field.tsx'
import { Icon } from '../ui/icon.tsx'
import { Failure, LoadingRows, Nothing, useLoading } from '../ui/list-page.tsx'
import { type Look, State, Time } from '../ui/marks.tsx'
import { Menu } from '../ui/menu.tsx'
import { RowLink, Table } from '../ui/rows.tsx'
import { tell, tellError } from '../ui/toasts.tsx'
import { type AddedInvitation, type Invitation, invitations, loadInvitations } from './invitations.ts'
import { NameField, type NameProblem, nameProblem } from './name-field.tsx'

const looks: Readonly<Record<Invitation['status'], Look>> = {
  active: { tone: 'good', text: 'access.status_active' },
  used: { tone: '', text: 'invite.status_used' },
  expired: { tone: '', text: 'access.status_expired' },
  revoked: { tone: '', text: 'invite.status_revoked' },
}

const rank = ({ status }: Invitation): number => Number(status !== 'active')

const columns = [
  ['access.name'],
  ['invite.agent', 'wide'],
  ['invite.joined', 'number'],
  ['invite.ends', 'wide'],
  ['access.status', 'wide'],
] as const

export function InvitationList() {
  const { failure, again } = useLoading(loadInvitations)
  const { question, ask, close } = useAsked<Invitation>()
  const all = invitations.value?.toReversed().sort((one, other) => rank(one) - rank(other))
  if (!all) return failure === undefined ? <LoadingRows /> : <Failure error={failure} onRetry={again} />
  if (all.length === 0)
    return (
      <Nothing
        icon="person"
        title={t('invite.none')}
        about={t('invite.none_about')}
        command="svc invite add mum"
      />
    )
  return (
    <>
      <Table columns={columns}>
        <tbody>
          {all.map(one => (
            <Line key={one.id} one={one} onRevoke={() => ask(one)} />
          ))}
        </tbody>
      </Table>
      {question && <Revoke one={question} onClose={close} />}
    </>
  )
}

/** A click shows the accounts that joined. */
function Line({ one, onRevoke }: { one: Invitation; onRevoke(): void }) {
  const { agent, expires_at, id, name, revoked_at, status, trusted, used, max_uses } = one
  const endsAt = revoked_at ?? expires_at
  const end = <Time at={endsAt}>{endsAt <= now.value ? ago(endsAt) : relative(endsAt)}</Time>
  return (
    <tr>
      <th scope="row">
        <RowLink href={withParams({ show: '', invitation: id })}>
          <bdi>{name}</bdi>
        </RowLink>
        <span class="narrow small">
          <State {...looks[status]} />
          <span class="soft">{end}</span>
        </span>
      </th>
      <td class="wide cell soft">
        <bdi class="block cut">{agent ?? '–'}</bdi>
        {trusted && <span class="small block cut">{t('invite.is_trusted')}</span>}
      </td>
      <td class="number">{t('invite.joined_of', { used: number(used), uses: number(max_uses) })}</td>
      <td class="wide soft">{end}</td>
      <td class="wide">
        <State {...looks[status]} />
      </td>
      <td>
        {status === 'active' && (
          <Menu
            label={t('session.menu', { name: isolated(name) })}
            actions={[
              { id: 'revoke', label: t('invite.revoke'), icon: 'close', danger: true, run: onRevoke },
            ]}
          />
        )}
      </td>
    </tr>
  )
}

function Revoke({ one: { id, name }, onClose }: { one: Invitation; onClose(): void }) {
  return (
    <Ask
      alert
      title={t('invite.revoke_title', { name: isolated(name) })}
      action={t('invite.revoke')}
      danger
      onClose={onClose}
      run={async () => {
        await call('revoke_invitation', { id })
        await loadInvitations()
        tell(t('invite.revoked', { name: isolated(name) }))
        onClose()
      }}
    >
      <ul class="consequences">
        <Consequence kind="lost">{t('invite.revoke_loses')}</Consequence>
        <Consequence kind="kept">{t('invite.revoke_keeps')}</Consequence>
      </ul>
    </Ask>
  )
}

/** Makes an invitation, then shows its link once. */
export function Invite({ onClose }: { onClose(): void }) {
  const added = useSignal<AddedInvitation | undefined>(undefined)
  const problem = useSignal<NameProblem | undefined>(undefined)
  if (added.value) {
    const toList = () => {
      setParams({ show: 'invitations', invitation: '' })
      onClose()
    }
    return <Made added={added.value} onClose={toList} />
  }
  return (
    <Ask
      title={t('invite.title')}
      description={t('invite.about')}
      action={t('invite.make')}
      onClose={onClose}
      onError={error => {
        // Only the name has a place for its problem.
        if (error instanceof ApiError && error.details.errors?.some(({ field }) => field !== 'name'))
          tellError(error)
        else problem.value = nameProblem(error)
      }}
      run={async form => {
        problem.value = undefined
        added.value = await call('add_invitation', typedIn(form))
        await loadInvitations()
      }}
    >
      <InviteFields problem={problem.value} />
    </Ask>
  )
}

const InviteFields = ({ problem }: { problem: NameProblem | undefined }) => (
  <>
    {/* One that serves several adds a number. */}
    <NameField
      label={t('invite.name')}
      placeholder={t('invite.name_example')}
      problem={problem}
      maxLength={60}
    />
    <AgentField />
    <Field
      label={t('invite.uses')}
      about={t('invite.uses_about')}
      input={{ ...from1To(mostUses), name: 'uses', defaultValue: 1 }}
    />
    <Choice label={t('access.expires')} name="days">
      {[1, 7, 30, 90, 365].map(days => (
        <option key={days} value={days} selected={days === 7}>
          {t('access.days', { count: days })}
        </option>
      ))}
    </Choice>
    <details class="more-fields">
      <summary>{t('nav.more')}</summary>
      <Field
        label={t('invite.inviter')}
        about={t('invite.inviter_about')}
        input={{ name: 'inviter', maxLength: 60 }}
      />
      <Field label={t('invite.turns')} input={{ ...from1To(mostTurns), name: 'turns', defaultValue: 20 }} />
      {may('agents') && (
        <div class="choice">
          <label>
            <input type="checkbox" name="trusted" />
            <span>{t('invite.trusted')}</span>
          </label>
        </div>
      )}
    </details>
  </>
)

/** With the names of the agents that are known. */
function AgentField() {
  const known = useSignal<readonly string[]>([])
  const id = useId()
  useEffect(() => {
    if (!may('agents')) return
    void call('list_agent_conversations', {}).then(
      all => {
        known.value = [...new Set(all.map(({ agent }) => agent))]
      },
      // Then the person types it.
      () => {},
    )
  }, [])
  return (
    <Field
      label={t('invite.agent_optional')}
      about={t('invite.agent_about')}
      input={{ name: 'agent', maxLength: 50, list: id, spellcheck: false }}
    >
      <datalist id={id}>
        {known.value.map(name => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </Field>
  )
}

const from1To = (max: number) => ({ type: 'number', min: 1, max }) as const
const mostUses = 1000
const mostTurns = 10_000
const dayMs = 86_400_000

function typedIn(form: FormData): Input<'add_invitation'> {
  const textOf = (name: string) => String(form.get(name) ?? '').trim()
  const countOf = (name: string, most: number) =>
    Math.min(most, Math.max(1, Math.round(Number(textOf(name)))))
  const [agent, inviter] = [textOf('agent'), textOf('inviter')]
  return {
    name: textOf('name'),
    max_uses: countOf('uses', mostUses),
    expires_at: Math.round(timeNow() + Number(textOf('days')) * dayMs),
    turns_per_day: countOf('turns', mostTurns),
    ...(inviter !== '' && { inviter }),
    ...(agent !== '' && { agent, trusted: form.has('trusted') }),
  }
}

/** Gives the service the address that others use. */
const addressOption = '--public-url'

function Made({ added: { agent, agent_runs, link, name, note, qr_svg }, onClose }: MadeProps) {
  return (
    <Dialog
      alert
      title={t('invite.made', { name: isolated(name) })}
      description={t('access.secret_once')}
      onClose={onClose}
      loses={() => t('ask.secret')}
      footer={
        <button class="button primary" type="button" onClick={onClose}>
          {t('access.secret_kept')}
        </button>
      }
    >
      <Copyable text={link} what={t('invite.link')} first />
      {note !== undefined && (
        <p class="notice warn">
          <Icon name="warn" />
          <span>
            {t('invite.only_here')} <code>{addressOption}</code>
          </span>
        </p>
      )}
      {agent !== undefined && !agent_runs && (
        <p class="notice warn">
          <Icon name="warn" />
          <span>{t('invite.agent_off', { name: isolated(agent) })}</span>
        </p>
      )}
      {qr_svg !== undefined && (
        <div class="login-code">
          <div class="picture">
            <img
              src={`data:image/svg+xml,${encodeURIComponent(qr_svg)}`}
              alt={t('invite.qr_alt')}
              width={264}
              height={264}
            />
          </div>
          <p class="soft small">{t('invite.scan')}</p>
        </div>
      )}
      <p class="soft small">{t('invite.then')}</p>
    </Dialog>
  )
}

interface MadeProps {
  added: AddedInvitation
  onClose(): void
}
