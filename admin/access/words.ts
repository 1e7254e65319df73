/** Texts for roles and rights. */
import type { Preset, Right } from '../../src/model/access.ts'
import { type TextKey, t } from '../i18n.ts'
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

/** The rights that only the role of an owner contains. */
export const ownRights: Readonly<Partial<Record<Right, TextKey>>> = {
  login: 'access.right_login',
  logout: 'access.right_logout',
  rename: 'access.right_rename',
  webhooks: 'access.right_webhooks',
  approve: 'access.right_approve',
  keys: 'access.right_keys',
  audit: 'access.right_audit',
  forget: 'access.right_forget',
  metrics: 'access.right_metrics',
  backup: 'access.right_backup',
  export: 'access.right_export',
}

/** Returns the name of a role or right, as `--can` takes it. */
export function wordText(word: string): string {
  const key = roles[word as Preset]?.name ?? ownRights[word as Right]
  return key ? t(key) : word
}

interface Look {
  tone: '' | 'good' | 'warn' | 'bad'
  text: TextKey
}

export const statusLooks: Readonly<Record<Key['status'], Look>> = {
  active: { tone: 'good', text: 'access.status_active' },
  expired: { tone: '', text: 'access.status_expired' },
  revoked: { tone: 'bad', text: 'access.status_revoked' },
}
