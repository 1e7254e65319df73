/** The invitations of people who log an account in by themselves. */
import { signal } from '@preact/signals'
import type { Invitation } from '../../src/model/invitation.ts'
import { call } from '../api.ts'
import { t } from '../i18n.ts'

export type { AddedInvitation, Invitation } from '../../src/model/invitation.ts'

/** Those that the caller may manage, the oldest first; undefined until they are loaded. */
export const invitations = signal<readonly Invitation[] | undefined>(undefined)

/** @throws ApiError */
export async function loadInvitations(): Promise<void> {
  invitations.value = await call('list_invitations', {})
}

/** Returns the name of the invitation of some accounts. @param id '' for those of nobody's invitation */
export function invitationName(id: string): string {
  if (id === '') return t('invite.own')
  return invitations.value?.find(one => one.id === id)?.name ?? t('invite.guests')
}
