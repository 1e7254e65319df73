/** Texts for roles and rights. */
import type { Preset } from '../../src/model/access.ts'
import { type TextKey, t } from '../i18n.ts'
import { rightName } from '../rights.ts'
import type { Look } from '../ui/marks.tsx'
import type { Key } from './keys.ts'

interface Role {
  name: TextKey
  about: TextKey
}

/** The roles, the one that may do least first. */
export const roles: Readonly<Record<Preset, Role>> = {
  read: { name: 'access.role_read', about: 'access.role_read_about' },
  draft: { name: 'access.role_draft', about: 'access.role_draft_about' },
  reply: { name: 'access.role_reply', about: 'access.role_reply_about' },
  operate: { name: 'access.role_operate', about: 'access.role_operate_about' },
  all: { name: 'access.role_all', about: 'access.role_all_about' },
}

/** Returns the name of a role or right. @param word as `--can` takes it */
export const wordText = (word: string): string =>
  word in roles ? t(roles[word as Preset].name) : rightName(word)

export const statusLooks: Readonly<Record<Key['status'], Look>> = {
  active: { tone: 'good', text: 'access.status_active' },
  expired: { tone: '', text: 'access.status_expired' },
  revoked: { tone: 'bad', text: 'access.status_revoked' },
}
