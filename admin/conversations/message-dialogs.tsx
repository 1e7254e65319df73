/** The dialogs of a message: where to forward it, and its raw form. */
import { useSignal } from '@preact/signals'
import { bytesOf, type Conversation, type Message, mediaUrl } from '../api.ts'
import { t } from '../i18n.ts'
import { conversations, nameOf, sessions } from '../live.ts'
import { hrefOf } from '../place.ts'
import { may } from '../rights.ts'
import { navigate } from '../service-urls.ts'
import { Copyable } from '../ui/copy.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { FilterField } from '../ui/filter-field.tsx'
import { Sheet } from '../ui/sheet.tsx'
import { tellError } from '../ui/toasts.tsx'
import { Avatar, Who } from '../users/avatar.tsx'
import { deskOf } from './desks.ts'
import { itemWords, textOf } from './message-summary.ts'
import type { Desk } from './outgoing.ts'
import { isThere, type MediaProps, mediaOf } from './use-blob.ts'

interface MessageDialogProps {
  message: Message
  what: 'forward' | 'raw'
  onClose(): void
}

export const MessageDialog = ({ message, what, onClose }: MessageDialogProps) =>
  what === 'raw' ? (
    <Sheet title={t('message.raw')} description={t('message.raw_about')} onClose={onClose}>
      <Copyable text={JSON.stringify(message, null, 2)} what={t('message.raw')} first />
    </Sheet>
  ) : (
    <Forward message={message} onClose={onClose} />
  )

/** The most conversations to show. Typing finds the others. */
const mostShown = 50

function Forward({ message, onClose }: Omit<MessageDialogProps, 'what'>) {
  const wanted = useSignal('')
  const needle = wanted.value.trim().toLowerCase()
  const found = (conversations.value ?? []).filter(({ session, user_id }) =>
    [nameOf(session, user_id) ?? '', user_id, session].some(text => text.toLowerCase().includes(needle)),
  )
  const choose = ({ session, user_id: userId }: Conversation) => {
    onClose()
    navigate(hrefOf({ session, userId }))
    void forward(message, deskOf(session, userId)).catch(tellError)
  }
  const several = (sessions.value?.length ?? 0) > 1
  return (
    <Dialog title={t('message.forward_to')} description={t('message.forward_about')} onClose={onClose}>
      <FilterField label={t('search.person')} wanted={wanted} />
      <ul class="forward-to">
        {found.slice(0, mostShown).map(one => (
          <li key={`${one.session}/${one.user_id}`}>
            <button type="button" class="conversation" onClick={() => choose(one)}>
              <Avatar session={one.session} id={one.user_id} small />
              <Who session={one.session} id={one.user_id} />
              {several && <span class="small soft foreign cut">{one.session}</span>}
            </button>
          </li>
        ))}
      </ul>
      <p class="soft small" role="status">
        {found.length === 0 ? t('search.person_none') : ''}
      </p>
    </Dialog>
  )
}

/** Puts a message into the composer of another chat, below what is there. Nothing is sent. */
async function forward(message: Message, desk: Desk): Promise<void> {
  const text = textOf(message)
  if (text !== '') desk.write([desk.text.value, text].filter(Boolean).join('\n'))
  if (!may('upload')) return
  const media = mediaOf(message).filter(one => isThere(one) && one.item.kind !== 'VOICE')
  const files = await Promise.all(media.map(fileOf))
  await desk.restored
  desk.attach(files)
}

async function fileOf({ message, item, index }: MediaProps): Promise<File> {
  const blob = await bytesOf(mediaUrl(message, index))
  const name = item.file_name ?? `${itemWords(item)}.${blob.type.replace(/^.*\/|[;+].*$/g, '')}`
  return new File([blob], name, { type: blob.type })
}
