/** The message field. Enter sends; Shift+Enter breaks the line. */
import { useComputed } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { errorText } from '../errors.ts'
import { bytes, type TextKey, t } from '../i18n.ts'
import { answering, may } from '../rights.ts'
import { touch } from '../screen.ts'
import { beginNow, loginPath } from '../sessions/names.ts'
import { useFocus } from '../ui/focus.ts'
import { Icon, IconButton } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { set } from '../ui/set.ts'
import { isSendKey } from '../ui/work.ts'
import { allAnswers, type Right } from '../users/reply-permission.tsx'
import type { Attachment } from './attachments.ts'
import { fileName } from './message-summary.ts'
import type { Desk } from './outgoing.ts'
import { costOf } from './pieces.ts'

const reasons: Readonly<Record<Exclude<Right['kind'], 'open'>, TextKey>> = {
  closed: 'composer.closed',
  used: 'error.quota_exhausted',
  expired: 'error.session_expired',
  damaged: 'composer.damaged',
  gone: 'composer.gone',
  unknown: 'composer.unknown',
}

/** What the composer allows now, and what it says above the field. */
function permitOf(desk: Desk, right: Right, cost: number) {
  const waitsFor = right.kind === 'closed' || right.kind === 'used'
  const lacks = right.kind === 'open' && cost > right.answers
  // A text that needs more answers than there ever are could never be sent.
  const mayQueue = waitsFor || (lacks && costOf(desk.text.value, 0) <= allAnswers)
  const queueing = desk.queueing.value
  const canWrite = right.kind === 'open' || (waitsFor && queueing)
  const isBroken = desk.files.value.some(({ error }) => error.value !== undefined)
  return {
    cost,
    lacks,
    mayQueue,
    canWrite,
    canSend: canWrite && cost > 0 && !isBroken && (!lacks || queueing),
    isNoticed: !canWrite || waitsFor || lacks,
    /** Whether Enter puts the message into the queue. */
    queues: queueing && mayQueue,
  }
}
type Permit = ReturnType<typeof permitOf>

interface ComposerProps {
  desk: Desk
  right: Right
  /** Whether the focus stays outside of the field. */
  reads: boolean
}

export function Composer({ desk, right, reads }: ComposerProps) {
  const field = useRef<HTMLTextAreaElement>(null)
  const cost = useComputed(() => costOf(desk.text.value, desk.files.value.length)).value
  const permit = permitOf(desk, right, cost)
  const { canSend, lacks, mayQueue } = permit
  const queueing = desk.queueing.value
  useFocus(field, !reads && !touch.value)
  useEffect(() => {
    // The reply window is open again, so nothing needs to wait.
    if (!mayQueue && queueing) desk.queueing.value = false
  }, [mayQueue, queueing])
  const focus = () => field.current?.focus()
  const send = () => {
    if (canSend) desk.send()
    focus()
  }
  return (
    <form
      class="composer"
      onSubmit={event => {
        event.preventDefault()
        send()
      }}
    >
      {permit.isNoticed && <Notice desk={desk} right={right} permit={permit} onQueue={focus} />}
      {answering() === 'draft' && (
        <p class="notice small">
          <Icon name="clock" size={16} />
          {t('composer.draft')}
        </p>
      )}
      <AttachedList desk={desk} onRemove={focus} />
      <div class="line">
        {may('upload') && <AttachButton desk={desk} isOff={!permit.canWrite} onChosen={focus} />}
        <Field desk={desk} permit={permit} field={field} onSend={send} />
        <SendButton permit={permit} />
      </div>
      {right.kind === 'open' && cost > 1 && !lacks && (
        <p class="cost small soft" role="status">
          {t('composer.cost', { cost, count: right.answers })}
        </p>
      )}
    </form>
  )
}

interface NoticeProps {
  desk: Desk
  right: Right
  permit: Permit
  onQueue(): void
}

/** Why nothing can be sent now, and what helps. */
function Notice({ desk, right, permit, onQueue }: NoticeProps) {
  const { cost, lacks, mayQueue, queues } = permit
  const queueing = desk.queueing.value
  const queue = () => {
    desk.queueing.value = true
    queueMicrotask(onQueue)
  }
  const why = () => {
    if (queues) return t('composer.queueing')
    if (right.kind !== 'open') return t(reasons[right.kind])
    return lacks ? t('composer.lacks', { cost, count: right.answers }) : ''
  }
  return (
    <div class="notice small" role="status">
      <Icon name={queues ? 'clock' : 'warn'} size={16} />
      <span class="grow">{why()}</span>
      {mayQueue && (
        <button type="button" class="link" onClick={queueing ? set(desk.queueing, false) : queue}>
          {t(queueing ? 'action.cancel' : 'composer.queue_next')}
        </button>
      )}
      {(right.kind === 'expired' || right.kind === 'damaged') && may('login') && (
        <Link class="link" href={loginPath(desk.session)} state={beginNow}>
          {t('sessions.login_again')}
        </Link>
      )}
      {right.kind === 'gone' && (
        <Link class="link" href="/sessions">
          {t('composer.accounts')}
        </Link>
      )}
    </div>
  )
}

interface AttachButtonProps {
  desk: Desk
  isOff: boolean
  onChosen(): void
}

function AttachButton({ desk, isOff, onChosen }: AttachButtonProps) {
  const picker = useRef<HTMLInputElement>(null)
  return (
    <>
      <IconButton
        icon="attach"
        label={t('composer.attach')}
        disabled={isOff}
        onClick={() => picker.current?.click()}
      />
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        tabIndex={-1}
        aria-hidden="true"
        onChange={event => {
          const { files: chosen } = event.currentTarget
          if (chosen) desk.attach(chosen)
          event.currentTarget.value = ''
          onChosen()
        }}
      />
    </>
  )
}

interface FieldProps {
  desk: Desk
  permit: Permit
  field: { current: HTMLTextAreaElement | null }
  onSend(): void
}

function Field({ desk, permit, field, onSend }: FieldProps) {
  useGrowing(field, desk.text.value)
  return (
    <textarea
      ref={field}
      rows={1}
      dir="auto"
      value={desk.text.value}
      disabled={!permit.canWrite}
      placeholder={t(permit.queues ? 'composer.write_later' : 'composer.write')}
      aria-label={t('composer.write')}
      enterkeyhint="send"
      onInput={event => desk.write(event.currentTarget.value)}
      onKeyDown={event => {
        if (!isSendKey(event)) return
        event.preventDefault()
        onSend()
      }}
      onPaste={event => {
        const pasted = event.clipboardData?.files
        if (!pasted?.length || !may('upload')) return
        event.preventDefault()
        desk.attach(pasted)
      }}
    />
  )
}

function SendButton({ permit: { canSend, queues } }: { permit: Permit }) {
  const text = t(queues ? 'composer.queue' : 'composer.send')
  return (
    <button
      type="submit"
      class="button primary icon-only"
      // Not `disabled`, so that Tab reaches it. The note above says what is missing.
      aria-disabled={!canSend}
      aria-label={text}
      title={text}
    >
      <Icon name={queues ? 'clock' : 'send'} />
    </button>
  )
}

function AttachedList({ desk, onRemove }: { desk: Desk; onRemove(): void }) {
  const files = desk.files.value
  if (files.length === 0) return null
  return (
    <ul class="attached" aria-label={t('composer.attached')}>
      {files.map(one => (
        <Attached
          key={one.id}
          one={one}
          onRemove={() => {
            desk.detach(one)
            onRemove()
          }}
        />
      ))}
    </ul>
  )
}

function Attached({ one, onRemove }: { one: Attachment; onRemove(): void }) {
  const { file, kind, preview, progress, error } = one
  const name = fileName(file.name) || t('chat.file')
  const problem = error.value ? errorText(error.value).title : ''
  return (
    <li class={problem ? 'attached-one bad' : 'attached-one'} title={problem || name}>
      {preview ? (
        <img src={preview} alt="" />
      ) : (
        <span class="sheet">
          <Icon name={kind === 'video' ? 'play' : 'file'} />
        </span>
      )}
      <span class="grow">
        <span class="cut foreign block" dir="auto">
          {name}
        </span>
        <span class={problem ? 'small problem' : 'small soft'}>{problem || bytes(file.size)}</span>
      </span>
      <IconButton icon="close" size={16} label={t('composer.remove', { name })} onClick={onRemove} />
      {progress.value < 1 && !problem && (
        <progress value={progress.value} aria-label={t('composer.uploading')} />
      )}
    </li>
  )
}

/** Sets the height of the field in browsers that lack `field-sizing`. */
function useGrowing(field: { current: HTMLTextAreaElement | null }, text: string): void {
  useLayoutEffect(() => {
    const area = field.current
    if (!area || CSS.supports('field-sizing', 'content')) return
    area.style.blockSize = 'auto'
    area.style.blockSize = `${area.scrollHeight + 2}px`
  }, [text])
}
