/** The dialogs that change a key, and the key itself, which is shown once. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { AddedRelay, Relay } from '../../src/model/relay.ts'
import { isolated, listed, t } from '../i18n.ts'
import { commandHere, status } from '../live.ts'
import { base, elsewhere } from '../service-urls.ts'
import { Ask, Consequence } from '../ui/ask.tsx'
import { Copyable } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { mainAction } from '../ui/list-page.tsx'
import { tell } from '../ui/toasts.tsx'
import { type AddedKey, type Key, keyCalls, keys, madeBy } from './keys.ts'

/** The open dialog, and its key. */
export type Asked =
  | { what: 'add' }
  | { what: 'secret'; added: AddedKey }
  | { what: 'rotate' | 'revoke'; item: Key }
  | { what: 'relay' }
  | { what: 'relay_added'; added: AddedRelay }
  | { what: 'relay_remove' | 'relay_allow'; item: Relay }

interface QuestionProps {
  item: Key
  onClose(): void
}

export function RevokeKey({ item: { id, name }, onClose }: QuestionProps) {
  const others = madeBy(id, keys.value ?? [])
  return (
    <Ask
      alert
      title={t('access.revoke_title', { name: isolated(name) })}
      action={t('access.revoke')}
      danger
      onClose={onClose}
      run={async () => {
        await keyCalls.revoke(id)
        tell(t('access.revoked'))
        onClose()
      }}
    >
      <ul class="consequences">
        <Consequence kind="lost">{t('access.revoke_calls')}</Consequence>
        {others.length > 0 && (
          <Consequence kind="lost">
            {t('access.revoke_keys', { names: listed(others.map(one => isolated(one.name))) })}
          </Consequence>
        )}
        <Consequence kind="lost">{t('access.revoke_webhooks')}</Consequence>
        <Consequence kind="waits">{t('access.revoke_queued')}</Consequence>
      </ul>
    </Ask>
  )
}

const daySeconds = 86_400

export function RotateKey({
  item: { id, name },
  onClose,
  onRotated,
}: QuestionProps & { onRotated(added: AddedKey): void }) {
  const keeps = useSignal(true)
  return (
    <Ask
      alert
      title={t('access.rotate_title', { name: isolated(name) })}
      action={t('access.rotate')}
      onClose={onClose}
      run={async () => onRotated(await keyCalls.rotate(id, keeps.value ? daySeconds : 0))}
    >
      <p>{t('access.rotate_about')}</p>
      <div class="choice">
        <label>
          <input
            type="checkbox"
            checked={keeps.value}
            onChange={event => {
              keeps.value = event.currentTarget.checked
            }}
          />
          <span>{t('access.rotate_keep')}</span>
        </label>
      </div>
    </Ask>
  )
}

export function Secret({ added: { key, name }, onClose }: { added: AddedKey; onClose(): void }) {
  const { rest_url } = status.value ?? {}
  const rest = rest_url && elsewhere(rest_url)
  const stdio = commandHere('svc mcp -t stdio --key-file svc.key')
  return (
    <Dialog
      title={t('access.secret_title', { name: isolated(name) })}
      description={t('access.secret_once')}
      onClose={onClose}
      loses={() => t('ask.secret')}
      focusAfter={mainAction}
      alert
      footer={
        <button class="button primary" type="button" onClick={onClose}>
          {t('access.secret_kept')}
        </button>
      }
    >
      <Copyable text={key} what={t('access.key')} first />
      {rest ? (
        <>
          <Snippet title={t('access.use_rest')} text={`curl -H 'Authorization: Bearer ${key}' ${rest}/me`} />
          <Snippet title={t('access.use_mcp')} text={mcpClientOf(`${rest}/mcp`, key)} />
        </>
      ) : (
        <p class="soft small">{t('access.no_rest')}</p>
      )}
      <Snippet title={t('access.use_stdio')} text={stdio} about={t('access.use_stdio_about')} />
      <Snippet
        title={t('access.use_panel')}
        text={`${location.origin}${base}/`}
        about={t('access.use_panel_about')}
      />
    </Dialog>
  )
}

/** The settings of an MCP client. */
const mcpClientOf = (url: string, key: string): string =>
  JSON.stringify({ mcpServers: { svc: { url, headers: { Authorization: `Bearer ${key}` } } } }, null, 2)

interface SnippetProps {
  title: string
  text: string
  about?: ComponentChildren
}

const Snippet = ({ title, text, about }: SnippetProps) => (
  <div class="field">
    <span class="label">{title}</span>
    <Copyable text={text} what={title} />
    {about && <p class="soft small">{about}</p>}
  </div>
)
