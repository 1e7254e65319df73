/** The message field. Enter sends; Shift+Enter breaks the line. */
import { useComputed } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { errorText } from '../errors.ts'
import { bytes, type TextKey, t } from '../i18n.ts'
import { answering, may } from '../rights.ts'
import { beginNow, loginPath } from '../sessions/names.ts'
import { Icon } from '../ui/icon.tsx'
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
  used: 'composer.used',
  expired: 'composer.expired',
  damaged: 'composer.damaged',
  gone: 'composer.gone',
}

export function Composer({ desk, right, narrow }: { desk: Desk; right: Right; narrow: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null)
  const picker = useRef<HTMLInputElement>(null)
  const cost = useComputed(() => costOf(desk.text.value, desk.files.value.length)).value
  const files = desk.files.value
  const queueing = desk.queueing.value
  const waitsFor = right.kind === 'closed' || right.kind === 'used'
  const lacks = right.kind === 'open' && cost > right.answers
  // A text that needs more answers than there ever are could never be sent.
  const mayQueue = waitsFor || (lacks && costOf(desk.text.value, 0) <= allAnswers)
  const canWrite = right.kind === 'open' || (waitsFor && queueing)
  const broken = files.some(({ error }) => error.value !== undefined)
  const canSend = canWrite && cost > 0 && !broken && (!lacks || queueing)

  // A layout effect runs before the next key press, which may come before the first drawing.
  useLayoutEffect(() => {
    // On a touch screen this would open the keyboard.
    if (!narrow && !matchMedia('(pointer: coarse)').matches) field.current?.focus({ preventScroll: true })
  }, [narrow])
  useGrowing(field, desk.text.value)
  useEffect(() => {
    // The reply window is open again, so nothing needs to wait.
    if (!mayQueue && queueing) desk.queueing.value = false
  }, [mayQueue, queueing])

  const send = () => {
    if (canSend) desk.send()
    field.current?.focus()
  }
  const queue = () => {
    desk.queueing.value = true
    queueMicrotask(() => field.current?.focus())
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isSendKey(event)) return
    event.preventDefault()
    send()
  }

  return (
    <form
      class="composer"
      onSubmit={event => {
        event.preventDefault()
        send()
      }}
    >
      {(!canWrite || waitsFor || lacks) && (
        <div class="notice small" role="status">
          <Icon name={queueing && mayQueue ? 'clock' : 'warn'} size={16} />
          <span class="grow">
            {queueing && mayQueue
              ? t('composer.queueing')
              : lacks
                ? t('composer.lacks', { cost, count: right.answers })
                : right.kind === 'open'
                  ? ''
                  : t(reasons[right.kind])}
          </span>
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
      )}
      {answering() === 'draft' && (
        <p class="notice small">
          <Icon name="clock" size={16} />
          {t('composer.draft')}
        </p>
      )}
      {files.length > 0 && (
        <ul class="attached" aria-label={t('composer.attached')}>
          {files.map(one => (
            <Attached
              key={one.id}
              one={one}
              onRemove={() => {
                desk.detach(one)
                field.current?.focus()
              }}
            />
          ))}
        </ul>
      )}
      <div class="line">
        {may('upload') && (
          <button
            type="button"
            class="button plain icon-only"
            aria-label={t('composer.attach')}
            title={t('composer.attach')}
            disabled={!canWrite}
            onClick={() => picker.current?.click()}
          >
            <Icon name="attach" />
          </button>
        )}
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
            field.current?.focus()
          }}
        />
        <textarea
          ref={field}
          rows={1}
          dir="auto"
          value={desk.text.value}
          disabled={!canWrite}
          placeholder={t(queueing && mayQueue ? 'composer.write_later' : 'composer.write')}
          aria-label={t('composer.write')}
          enterkeyhint="send"
          onInput={event => desk.write(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          onPaste={event => {
            const pasted = event.clipboardData?.files
            if (!pasted?.length || !may('upload')) return
            event.preventDefault()
            desk.attach(pasted)
          }}
        />
        <button
          type="submit"
          class="button primary icon-only"
          // Not `disabled`, so that Tab reaches it. The note above says what is missing.
          aria-disabled={!canSend}
          aria-label={t(queueing && mayQueue ? 'composer.queue' : 'composer.send')}
          title={t(queueing && mayQueue ? 'composer.queue' : 'composer.send')}
        >
          <Icon name={queueing && mayQueue ? 'clock' : 'send'} />
        </button>
      </div>
      {right.kind === 'open' && cost > 1 && !lacks && (
        <p class="cost small soft" role="status">
          {t('composer.cost', { cost, count: right.answers })}
        </p>
      )}
    </form>
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
      <button
        type="button"
        class="button plain icon-only"
        aria-label={t('composer.remove', { name })}
        onClick={onRemove}
      >
        <Icon name="close" size={16} />
      </button>
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
