/** The dialogs that remove a topic, and make a key for one of its senders. */
import { useSignal } from '@preact/signals'
import { type AddedKey, keyCalls, keys, loadKeys } from '../access/keys.ts'
import { isolated, t } from '../i18n.ts'
import { Ask, Consequence } from '../ui/ask.tsx'
import { Copyable } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Field } from '../ui/field.tsx'
import { Icon } from '../ui/icon.tsx'
import { useLoading } from '../ui/list-page.tsx'
import { tell } from '../ui/toasts.tsx'
import { addressOf, type Person, type Topic, topicCalls } from './topics.ts'
import { contactOf } from './words.ts'

/** The open dialog, and its topic. */
export type Asked =
  | { what: 'add' }
  | { what: 'change' | 'join' | 'key' | 'remove'; topic: Topic }
  | { what: 'hours' | 'leave'; topic: Topic; person: Person }

interface QuestionProps {
  topic: Topic
  onClose(): void
}

export function RemoveTopic({ topic: { name, waiting }, onClose }: QuestionProps) {
  return (
    <Ask
      alert
      title={t('topics.remove_title', { name: isolated(name) })}
      action={t('webhooks.remove')}
      danger
      onClose={onClose}
      run={async () => {
        await topicCalls.remove(name)
        tell(t('topics.removed'))
        onClose()
      }}
    >
      <ul class="consequences">
        <Consequence kind="lost">{t('topics.remove_senders')}</Consequence>
        {waiting > 0 && (
          <Consequence kind="lost">{t('topics.remove_waiting', { count: waiting })}</Consequence>
        )}
      </ul>
    </Ask>
  )
}

/** Takes one person out of a topic. */
export function LeaveTopic({ topic: { name }, person, onClose }: QuestionProps & { person: Person }) {
  return (
    <Ask
      alert
      title={t('topics.leave_title', { name: isolated(contactOf(person)), topic: isolated(name) })}
      action={t('topics.leave')}
      danger
      onClose={onClose}
      run={async () => {
        await topicCalls.change({ topic: name, remove: [person.user_id] })
        tell(t('topics.changed'))
        onClose()
      }}
    >
      {person.waiting > 0 && <p>{t('topics.remove_waiting', { count: person.waiting })}</p>}
    </Ask>
  )
}

/** Makes a key that opens the topic and nothing else, then shows it once. */
export function SenderKey({ topic: { name: topic }, onClose }: QuestionProps) {
  const added = useSignal<AddedKey | undefined>(undefined)
  useLoading(loadKeys)
  if (added.value) return <Made topic={topic} added={added.value} onClose={onClose} />
  return (
    <Ask
      title={t('topics.key_title', { name: isolated(topic) })}
      description={t('topics.key_about')}
      action={t('topics.key')}
      onClose={onClose}
      run={async form => {
        const name = String(form.get('name')).trim() || topic
        added.value = await keyCalls.add({ name, can: ['notify'], topics: [topic] })
      }}
    >
      {keys.value?.length === 0 && (
        <p class="notice warn small">
          <Icon name="warn" size={16} />
          <span>{t('access.first_about')}</span>
        </p>
      )}
      <Field label={t('access.name')} input={{ name: 'name', maxLength: 64, placeholder: topic }} />
    </Ask>
  )
}

function Made({ topic, added: { key, name }, onClose }: { topic: string; added: AddedKey; onClose(): void }) {
  const address = addressOf(topic)
  return (
    <Dialog
      alert
      title={t('access.secret_title', { name: isolated(name) })}
      description={t('access.secret_once')}
      onClose={onClose}
      loses={() => t('ask.secret')}
      footer={
        <button class="button primary" type="button" onClick={onClose}>
          {t('access.secret_kept')}
        </button>
      }
    >
      <Copyable text={key} what={t('access.key')} first />
      {address === undefined ? (
        <p class="soft small">{t('access.no_rest')}</p>
      ) : (
        <>
          <div class="field">
            <span class="label">{t('topics.try')}</span>
            <Copyable
              text={`curl -H 'Authorization: Bearer ${key}' -d 'Hello' ${address}`}
              what={t('overview.command')}
            />
          </div>
          <div class="field">
            <span class="label">{t('topics.key_in_address')}</span>
            <Copyable text={`${address}?key=${key}`} what={t('webhooks.address')} />
            <p class="soft small">{t('topics.key_in_address_about')}</p>
          </div>
        </>
      )}
    </Dialog>
  )
}
