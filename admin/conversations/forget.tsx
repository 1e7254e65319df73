/** The dialog that erases a person, and what was done. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'
import { askOutboxAgain } from '../answers.ts'
import { type Answer, call } from '../api.ts'
import { gap, isolated, t } from '../i18n.ts'
import { nameOf, refresh, sessions } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { navigate } from '../service-urls.ts'
import { whole } from '../times.ts'
import { Ask } from '../ui/ask.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Icon, type IconName } from '../ui/icon.tsx'
import { tell, tellError } from '../ui/toasts.tsx'

interface ForgetProps {
  place: Place
  /** Drops what this browser has of the user. As an argument, it stays in the script of the chat. */
  dropUser(userId: string): Promise<void>
  onClose(): void
}

export function Forget({ place: { session, userId }, dropUser, onClose }: ForgetProps) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  const name = useRef(nameOf(session, userId))
  const problem = useSignal('')
  const busy = useSignal(false)
  const done = useSignal<Answer<'forget'> | undefined>(undefined)
  const shown = isolated(name.current ?? userId)
  const owned =
    sessions.value?.filter(({ user_id }) => user_id === userId).map(one => isolated(one.name)) ?? []
  const title = t('people.forgotten', { name: shown })

  const forget = async (typed: string) => {
    problem.value = ''
    if (typed !== userId && typed.normalize() !== name.current?.normalize()) {
      problem.value = t('people.forget_wrong')
      return field.current?.focus()
    }
    busy.value = true
    const result = await call('forget', { user: userId })
    await dropUser(userId)
    askOutboxAgain()
    await refresh().catch(tellError)
    // The dialog was closed.
    if (!field.current) tell(title)
    done.value = result
  }
  const leave = () => {
    onClose()
    navigate(hrefOf({}), { replace: true })
  }

  if (done.value) return <Done title={title} result={done.value} onClose={leave} />
  return (
    <Ask
      title={t('people.forget_heading', { name: shown })}
      action={t('people.forget_go')}
      danger
      alert
      onClose={onClose}
      onError={error => {
        busy.value = false
        tellError(error)
      }}
      run={typed => forget(String(typed.get('typed')).trim())}
    >
      <ul class="consequences">
        <Item icon="warn" kind="lost">
          {t('people.forget_loses')}
          {gap()}
          {t('people.forget_limited')}
        </Item>
        {owned.length > 0 && <Item icon="warn">{t('people.forget_owner', { names: owned.join(', ') })}</Item>}
        <Item icon="file">{t('people.forget_keeps')}</Item>
        <Item icon="conversations">{t('people.forget_returns')}</Item>
      </ul>
      <div class="field">
        <label for={id} class="foreign">
          {t(name.current === undefined ? 'people.forget_type_id' : 'people.forget_type', { name: shown })}
        </label>
        <input
          class="input"
          id={id}
          ref={field}
          name="typed"
          data-autofocus
          autocomplete="off"
          spellcheck={false}
          dir="auto"
          aria-describedby={`${id}-problem`}
          aria-invalid={problem.value !== ''}
        />
        <p class="problem" id={`${id}-problem`} role="alert">
          {problem.value}
        </p>
      </div>
      <p class="soft small" role="status">
        {busy.value ? t('people.forgetting') : ''}
      </p>
    </Ask>
  )
}

interface DoneProps {
  title: string
  result: Answer<'forget'>
  onClose(): void
}

function Done({ title, result, onClose }: DoneProps) {
  const { agents, backups, hash, keys, messages, remains, sends, webhooks } = result
  return (
    <Dialog
      alert
      title={title}
      onClose={onClose}
      footer={
        <button class="button primary" type="button" data-autofocus onClick={onClose}>
          {t('login.done')}
        </button>
      }
    >
      <ul class="consequences">
        <Item icon="check" kind="kept">
          {t('people.done_messages', { count: messages })}
        </Item>
        {sends > 0 && (
          <Item icon="check" kind="kept">
            {t('people.done_sends', { count: sends })}
          </Item>
        )}
        {webhooks.length > 0 && (
          <Item icon="check" kind="kept">
            {t('people.done_webhooks', { count: webhooks.length })}
          </Item>
        )}
        {keys.length > 0 && (
          <Item icon="check" kind="kept">
            {t('people.done_keys', { count: keys.length })}
          </Item>
        )}
        <Item icon="file">{t('people.done_audit', { hash: isolated(hash) })}</Item>
        {agents.length > 0 && (
          <Item icon="warn">{t('people.done_agents', { names: agents.map(isolated).join(', ') })}</Item>
        )}
        {remains.length > 0 && (
          <Item icon="warn">
            {t('people.done_remains')}
            {remains.map(what => (
              <span key={what} class="soft small block foreign">
                {what}
              </span>
            ))}
          </Item>
        )}
        <Item icon={backups.length > 0 ? 'warn' : 'file'}>
          {backups.length > 0
            ? t('people.done_backups', { count: backups.length })
            : t('people.done_no_backup')}
          {backups.map(({ path, created_at }) => (
            <span key={path} class="soft small block foreign" title={whole(created_at)}>
              {path}
            </span>
          ))}
        </Item>
      </ul>
    </Dialog>
  )
}

const Item = (props: { icon: IconName; kind?: string; children: ComponentChildren }) => (
  <li class={props.kind ?? ''}>
    <Icon name={props.icon} />
    <span>{props.children}</span>
  </li>
)
