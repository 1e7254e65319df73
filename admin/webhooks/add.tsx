/** The dialog that adds a webhook. Its secret is shown afterwards. */
import { useSignal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { ApiError } from '../api.ts'
import { quoted } from '../commands.ts'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { commandHere, sessions } from '../live.ts'
import { Ask } from '../ui/ask.tsx'
import { Choice } from '../ui/choice.tsx'
import { Copyable } from '../ui/copy.tsx'
import { Field } from '../ui/field.tsx'
import { type AddedWebhook, type NewWebhookInput, webhooks } from './endpoints.ts'
import { typeTexts } from './words.ts'

interface AddProps {
  onClose(): void
  onAdded(added: AddedWebhook): void
}

/** Why the webhook was not added. For a URL in a private network, also the command that adds it. */
interface Problem {
  title: string
  hint?: string
  command?: string
}

const exampleUrl = 'https://example.com/hook'
const exampleHeader = 'Authorization: Bearer …'

export function AddWebhook({ onClose, onAdded }: AddProps) {
  const problem = useSignal<Problem | undefined>(undefined)
  const add = async (form: FormData) => {
    const typed = typedIn(form)
    problem.value = typed ? undefined : { title: t('webhooks.headers_bad') }
    if (!typed) return
    try {
      onAdded(await webhooks.add(typed))
    } catch (error) {
      problem.value =
        error instanceof ApiError && error.code === 'forbidden'
          ? { title: t('webhooks.private_rejected'), command: commandFor(typed) }
          : errorText(error)
    }
  }
  return (
    <Ask title={t('webhooks.add')} action={t('webhooks.add')} onClose={onClose} run={add}>
      <Fields problem={problem.value} />
    </Ask>
  )
}

function Fields({ problem }: { problem: Problem | undefined }) {
  return (
    <>
      <UrlField problem={problem} id={useId()} />
      <fieldset class="field choice">
        <legend class="label">{t('webhooks.types')}</legend>
        <div>
          {Object.entries(typeTexts).map(([type, key]) => (
            <label key={type}>
              <input type="checkbox" name="types" value={type} />
              <span>{t(key)}</span>
            </label>
          ))}
        </div>
        <p class="soft small">{t('webhooks.types_about')}</p>
      </fieldset>
      <SessionField />
      <Field
        label={t('webhooks.headers_optional')}
        about={t('webhooks.headers_about')}
        rows={2}
        input={{
          class: 'input mono',
          name: 'headers',
          dir: 'ltr',
          placeholder: exampleHeader,
          spellcheck: false,
        }}
      />
      <div class="choice">
        <label>
          <input type="checkbox" name="replies" />
          <span>{t('webhooks.replies_about')}</span>
        </label>
      </div>
    </>
  )
}

/** The URL field with its errors. */
const UrlField = ({ problem, id }: { problem: Problem | undefined; id: string }) => (
  <div class="field">
    <label for={`${id}-url`}>{t('webhooks.url')}</label>
    <input
      class="input"
      id={`${id}-url`}
      name="url"
      type="url"
      dir="ltr"
      placeholder={exampleUrl}
      autocomplete="off"
      data-autofocus
      aria-invalid={problem !== undefined}
      aria-describedby={`${id}-private ${id}-problem`}
    />
    <p class="soft small" id={`${id}-private`}>
      {t('webhooks.private_about')}
    </p>
    <div id={`${id}-problem`} role="alert">
      {problem && (
        <p class="problem">
          {problem.title} <span class="foreign">{problem.hint}</span>
        </p>
      )}
      {problem?.command && <Copyable text={problem.command} what={t('overview.command')} />}
    </div>
  </div>
)

/** The choice of an account, if there are several. */
function SessionField() {
  const all = sessions.value ?? []
  if (all.length < 2) return null
  return (
    <Choice label={t('search.account')} name="session">
      <option value="">{t('search.account_any')}</option>
      {all.map(({ name }) => (
        <option key={name}>{name}</option>
      ))}
    </Choice>
  )
}

/** The input of the form; undefined if a line of the headers is invalid. */
function typedIn(data: FormData): NewWebhookInput | undefined {
  const session = String(data.get('session') ?? '')
  const lines = String(data.get('headers')).split('\n')
  const headers = lines.map(line => line.trim()).filter(line => line !== '')
  const pairs = headers.map(line => [line.split(':', 1)[0]!.trim(), line.slice(line.indexOf(':') + 1).trim()])
  if (headers.some(line => line.indexOf(':') < 1)) return undefined
  return {
    url: String(data.get('url')).trim(),
    types: data.getAll('types').map(String) as NonNullable<NewWebhookInput['types']>,
    ...(session !== '' && { session }),
    ...(pairs.length > 0 && { headers: Object.fromEntries(pairs) }),
    ...(data.has('replies') && { replies: true }),
  }
}

/** The command that adds the same webhook. It may reach private networks. Values of headers are left out. */
function commandFor({ url, types = [], session, headers = {}, replies }: NewWebhookInput): string {
  const words = [
    `svc webhook add ${quoted(url)} --allow-private`,
    ...(types.length > 0 ? [`--types ${types.join(',')}`] : []),
    ...(session === undefined ? [] : [`--session ${quoted(session)}`]),
    ...Object.keys(headers).map(name => `--header ${quoted(`${name}: …`)}`),
    ...(replies ? ['--replies'] : []),
  ]
  return commandHere(words.join(' '))
}
