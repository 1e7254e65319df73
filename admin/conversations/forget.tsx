/** The dialog that erases a person, and what was done. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { askOutboxAgain } from '../answers.ts'
import { type Answer, call } from '../api.ts'
import { gap, isolated, t } from '../i18n.ts'
import { nameOf, refresh, sessions } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { navigate } from '../service-urls.ts'
import { whole } from '../times.ts'
import { Ask, Consequence } from '../ui/ask.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field } from '../ui/field.tsx'
import { tell, tellError } from '../ui/toasts.tsx'

interface ForgetProps {
  place: Place
  /** Drops what this browser has of the user. As an argument, it stays in the script of the chat. */
  dropUser(userId: string): Promise<void>
  onClose(): void
}

export function Forget({ place: { session, userId }, dropUser, onClose }: ForgetProps) {
  const field = useRef<HTMLInputElement>(null)
  /** The name as it was: the erasure removes it. */
  const name = useRef(nameOf(session, userId)).current
  const shown = isolated(name ?? userId)
  const title = t('people.forgotten', { name: shown })
  const problem = useSignal('')
  const busy = useSignal(false)
  const done = useSignal<Answer<'forget'> | undefined>(undefined)
  const erase = async () => {
    busy.value = true
    const result = await call('forget', { user: userId })
    await dropUser(userId)
    askOutboxAgain()
    await refresh().catch(tellError)
    // The dialog was closed.
    if (!field.current) tell(title)
    done.value = result
  }
  const eraseIf = async (typed: string) => {
    const isRight = typed === userId || typed.normalize() === name?.normalize()
    problem.value = isRight ? '' : t('people.forget_wrong')
    if (isRight) await erase()
    else field.current?.focus()
  }
  if (done.value) return <Done title={title} result={done.value} onClose={() => leave(onClose)} />
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
      run={typed => eraseIf(String(typed.get('typed')).trim())}
    >
      <Losses userId={userId} />
      <Field
        label={t(name === undefined ? 'people.forget_type_id' : 'people.forget_type', { name: shown })}
        problem={problem.value}
        input={{ ref: field, name: 'typed', 'data-autofocus': true, spellcheck: false }}
      />
      <p class="soft small" role="status">
        {busy.value ? t('people.forgetting') : ''}
      </p>
    </Ask>
  )
}

/** Leaves the chat, which is gone. */
function leave(onClose: () => void): void {
  onClose()
  navigate(hrefOf({}), { replace: true })
}

function Losses({ userId }: { userId: string }) {
  const owned = sessions.value?.flatMap(one => (one.user_id === userId ? isolated(one.name) : [])) ?? []
  return (
    <ul class="consequences">
      <Consequence kind="lost">
        {t('people.forget_loses')}
        {gap()}
        {t('people.forget_limited')}
      </Consequence>
      {owned.length > 0 && (
        <Consequence kind="warning">{t('people.forget_owner', { names: owned.join(', ') })}</Consequence>
      )}
      <Consequence kind="remark">{t('people.forget_keeps')}</Consequence>
      <Consequence kind="remark">{t('people.forget_returns')}</Consequence>
    </ul>
  )
}

interface DoneProps {
  title: string
  result: Answer<'forget'>
  onClose(): void
}

function Done({ title, result, onClose }: DoneProps) {
  const { agents, backups, hash, keys, messages, remains, sends, webhooks } = result
  const erased = [
    t('people.done_messages', { count: messages }),
    sends > 0 && t('people.done_sends', { count: sends }),
    webhooks.length > 0 && t('people.done_webhooks', { count: webhooks.length }),
    keys.length > 0 && t('people.done_keys', { count: keys.length }),
  ]
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
        {erased.map(
          text =>
            text && (
              <Consequence key={text} kind="kept">
                {text}
              </Consequence>
            ),
        )}
        <Consequence kind="remark">{t('people.done_audit', { hash: isolated(hash) })}</Consequence>
        {agents.length > 0 && (
          <Consequence kind="warning">
            {t('people.done_agents', { names: agents.map(isolated).join(', ') })}
          </Consequence>
        )}
        {remains.length > 0 && (
          <Consequence kind="warning">
            {t('people.done_remains')}
            <Paths paths={remains} />
          </Consequence>
        )}
        <Consequence kind={backups.length > 0 ? 'warning' : 'remark'}>
          {backups.length > 0
            ? t('people.done_backups', { count: backups.length })
            : t('people.done_no_backup')}
          <Paths paths={backups.map(({ path, created_at }) => `${path} · ${whole(created_at)}`)} />
        </Consequence>
      </ul>
    </Dialog>
  )
}

const Paths = ({ paths }: { paths: readonly string[] }) =>
  paths.map(path => (
    <span key={path} class="soft small block foreign">
      {path}
    </span>
  ))
