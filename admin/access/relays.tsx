/** Programs that speak WeChat's protocol to svc: a list, and the dialogs that add and remove one. */
import { signal, useSignal } from '@preact/signals'
import type { AddedRelay, Relay } from '../../src/model/relay.ts'
import { call, type Input } from '../api.ts'
import { errorText } from '../errors.ts'
import { isolated, listed, t } from '../i18n.ts'
import { sessions } from '../live.ts'
import { ago } from '../times.ts'
import { Ask, Consequence } from '../ui/ask.tsx'
import { Choice } from '../ui/choice.tsx'
import { Copyable } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field } from '../ui/field.tsx'
import { Icon } from '../ui/icon.tsx'
import { mainAction } from '../ui/list-page.tsx'
import { State, Time } from '../ui/marks.tsx'
import { Menu } from '../ui/menu.tsx'
import { Row, Rows } from '../ui/rows.tsx'
import { tell } from '../ui/toasts.tsx'
import type { Asked } from './ask.tsx'
import { keys, loadKeys } from './keys.ts'

const relays = signal<readonly Relay[]>([])

/** @throws ApiError */
export async function loadRelays(): Promise<void> {
  relays.value = await call('list_relays', {})
}

async function changed<T>(asked: Promise<T>): Promise<T> {
  const answer = await asked
  await Promise.all([loadKeys(), loadRelays()])
  return answer
}

const doubtMs = 86_400_000

export const RelayList = ({ onAsk }: { onAsk(question: Asked): void }) =>
  relays.value.length === 0 ? null : (
    <section aria-labelledby="relays">
      <h2 id="relays">{t('relay.title')}</h2>
      <Rows label={t('relay.title')} class="relays">
        {relays.value.map(item => (
          <RelayRow key={item.id} item={item} onAsk={onAsk} />
        ))}
      </Rows>
    </section>
  )

function RelayRow({ item, onAsk }: { item: Relay; onAsk(question: Asked): void }) {
  const { answered, answers, asks = [], doubled_at, name, polled_at, refusal, refused, session } = item
  const { unread = 0 } = item
  const remove = () => onAsk({ what: 'relay_remove', item })
  const isDoubled = doubled_at !== undefined && (polled_at ?? 0) - doubled_at < doubtMs
  const allow = () => onAsk({ what: 'relay_allow', item })
  const isAsked = asks.length > 0
  const actions = [
    ...(isAsked ? [{ id: 'allow', label: t('relay.allow'), icon: 'check' as const, run: allow }] : []),
    { id: 'remove', label: t('webhooks.remove'), icon: 'close' as const, danger: true, run: remove },
  ]
  return (
    <Row
      name={<bdi>{name}</bdi>}
      about={
        <>
          <bdi class="foreign">{session}</bdi> ·{' '}
          {answers === 'called'
            ? t('relay.called')
            : t('relay.answered', { used: answered, most: answers === 'all' ? '10' : answers })}
        </>
      }
      end={
        <>
          {polled_at !== undefined && (
            <Time at={polled_at} class="soft small">
              {ago(polled_at)}
            </Time>
          )}
          <Menu label={t('session.menu', { name: isolated(name) })} actions={actions} />
        </>
      }
    >
      {polled_at === undefined && !isAsked && <State tone="" text="relay.never" />}
      {isAsked && <State tone="warn" text="relay.asks" />}
      {unread > 0 && <span class="badge">{t('relay.unread', { count: unread })}</span>}
      {isDoubled && <State tone="bad" text="relay.doubled" />}
      {refused > 0 && (
        <State tone="warn" text="relay.refused" params={{ sum: refused, why: refusal ?? '' }} />
      )}
    </Row>
  )
}

const programs = {
  '': '–',
  openclaw: 'OpenClaw',
  weilink: 'WeiLink',
  hermes: 'Hermes',
  'cc-connect': 'cc-connect',
  astrbot: 'AstrBot',
  langbot: 'LangBot',
  'wechat-acp': 'wechat-acp',
  nonebot: 'NoneBot',
} as const
const shares = ['1', '2', '3', '4', '5', '6', '7', '8', '9']

interface AddProps {
  onClose(): void
  onAdded(added: AddedRelay): void
}

export function AddRelay({ onClose, onAdded }: AddProps) {
  const problem = useSignal<{ title: string; hint: string } | undefined>(undefined)
  const all = sessions.value?.filter(({ bot_id }) => bot_id !== undefined) ?? []
  return (
    <Ask
      title={t('relay.add')}
      description={t('relay.about')}
      action={t('relay.add')}
      onClose={onClose}
      onError={error => {
        problem.value = errorText(error)
      }}
      run={async form => onAdded(await changed(call('add_relay', typedIn(form))))}
    >
      {keys.value?.length === 0 && (
        <p class="notice warn small">
          <Icon name="warn" size={16} />
          <span>{t('access.first_about')}</span>
        </p>
      )}
      <Choice label={t('relay.program')} name="for">
        {Object.entries(programs).map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </Choice>
      <Field label={t('access.name')} input={{ name: 'name', maxLength: 64, placeholder: 'openclaw' }} />
      <Choice label={t('search.account')} name="session">
        {all.map(({ name }) => (
          <option key={name}>{name}</option>
        ))}
      </Choice>
      <Choice label={t('relay.answers')} name="answers">
        <option value="all">{t('relay.all')}</option>
        <option value="called">{t('relay.called')}</option>
        {shares.map(count => (
          <option key={count} value={count}>
            {t('relay.share', { count: Number(count) })}
          </option>
        ))}
      </Choice>
      <div role="alert">
        {problem.value && (
          <p class="problem">
            {problem.value.title} <span class="foreign">{problem.value.hint}</span>
          </p>
        )}
      </div>
    </Ask>
  )
}

function typedIn(data: FormData): Input<'add_relay'> {
  const textOf = (name: string) => String(data.get(name) ?? '').trim()
  const program = textOf('for')
  return {
    name: textOf('name') || program,
    answers: textOf('answers') as 'all',
    ...(textOf('session') !== '' && { session: textOf('session') }),
    ...(program !== '' && { for: program as 'openclaw' }),
  }
}

export function AddedRelayView({ added, onClose }: { added: AddedRelay; onClose(): void }) {
  const { base_url, bot_id, cdn_url, name, others, settings, token } = added
  const plain = {
    [t('relay.base_url')]: base_url,
    [t('relay.cdn_url')]: cdn_url,
    [t('relay.bot_id')]: bot_id,
  }
  const shown =
    settings?.map(({ file, text }) => [file ?? t('relay.settings'), text] as const) ?? Object.entries(plain)
  return (
    <Dialog
      alert
      title={t('access.secret_title', { name: isolated(name) })}
      description={t('access.secret_once')}
      onClose={onClose}
      loses={() => t('ask.secret')}
      focusAfter={mainAction}
      footer={
        <button class="button primary" type="button" onClick={onClose}>
          {t('access.secret_kept')}
        </button>
      }
    >
      {others.length > 0 && (
        <p class="notice warn small">
          <Icon name="warn" size={16} />
          <span>
            {t('relay.others', { names: listed(others.map(one => isolated(one.name ?? one.kind))) })}
          </span>
        </p>
      )}
      {token !== undefined && <Copyable text={token} what={t('access.key')} first />}
      {shown.map(([title, text]) => (
        <div key={title} class="field">
          <span class="label">{title}</span>
          <Copyable text={text} what={title} />
        </div>
      ))}
    </Dialog>
  )
}

export const RemoveRelay = ({ item: { id, name }, onClose }: { item: Relay; onClose(): void }) => (
  <Ask
    alert
    title={t('relay.remove_title', { name: isolated(name) })}
    action={t('webhooks.remove')}
    danger
    onClose={onClose}
    run={async () => {
      await changed(call('remove_relay', { name: id }))
      tell(t('relay.removed'))
      onClose()
    }}
  >
    <ul class="consequences">
      <Consequence kind="lost">{t('relay.remove_token')}</Consequence>
    </ul>
  </Ask>
)

/** The owner types what the program shows: from a list, another one might be agreed to. */
export function AllowRelay({ item: { asks = [], name }, onClose }: { item: Relay; onClose(): void }) {
  const problem = useSignal('')
  return (
    <Ask
      title={t('relay.allow_title', { name: isolated(name) })}
      description={t('relay.allow_about', {
        addresses: listed(asks.map(one => isolated(one.address ?? '–'))),
      })}
      action={t('relay.allow')}
      onClose={onClose}
      onError={error => {
        problem.value = errorText(error).title
      }}
      run={async form => {
        await changed(call('allow_relay', { number: String(form.get('number') ?? '').trim() }))
        tell(t('relay.allowed'))
        onClose()
      }}
    >
      <Field
        label={t('relay.number')}
        problem={problem.value}
        input={{ name: 'number', required: true, pattern: '[0-9]{6}', maxLength: 6, inputMode: 'numeric' }}
      />
    </Ask>
  )
}
