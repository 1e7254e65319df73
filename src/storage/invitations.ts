/** Invitations: links by which people log an account in by themselves. The rules for every method are in `store.ts`. */
import { badArgument, type SvcError } from '../model/error.ts'
import type { InvitationStatus } from '../model/invitation.ts'
import type { BotInfo } from '../model/session.ts'

export interface NewInvitation {
  id: string
  /** Name of the account; with a number where several people may use it. */
  name: string
  /** SHA-256 of the secret, in lower-case hex. */
  hash: string
  /** The agent that answers. */
  agent?: string
  /** Whether the agent works without a sandbox. */
  trusted: boolean
  /** Turns with the agent, for each person. */
  turns_per_day: number
  /** Maximum number of people. */
  max_uses: number
  /** Who invites, for people. */
  inviter?: string
  /** Name of the topic for the person; of several, each gets one with the number of the account. */
  topic?: string
  /** The principal that made it, as from `formatPrincipal`. */
  made_by: string
  created_at: number
  /** Unix ms. */
  expires_at: number
}

export interface StoredInvitation extends NewInvitation {
  /** Number of people who joined. */
  used: number
  revoked_at?: number
}

/** What became of a login by invitation, once the person confirmed it. */
export type JoinOutcome =
  /** A new person: this counted a use. */
  | 'joined'
  /** The person has an account here already, and got it back. */
  | 'back'
  /** The invitation had ended: nothing was stored. */
  | 'over'

/** Whom an invitation brings. */
export interface Joining {
  invitation: string
  /** Id of the login: a use is counted once for each. */
  login: string
  /** Name of the session that gets the credentials. */
  session: string
  bot: Pick<BotInfo, 'bot_id' | 'user_id'>
  /** Whether the person has that session already. */
  isKnown: boolean
  /** Unix ms. */
  at: number
}

/** Returns the state of an invitation at a time in Unix ms. */
export function invitationStatusOf(one: StoredInvitation, now: number): InvitationStatus {
  if (one.revoked_at !== undefined) return 'revoked'
  if (one.used >= one.max_uses) return 'used'
  return one.expires_at <= now ? 'expired' : 'active'
}

export const tooManyInvitationsError = (most: number): SvcError =>
  badArgument('name', `there are ${most} active invitations already, which is the maximum`, {
    details: { most },
    hint: 'Revoke an invitation that you no longer need.',
  })

/** Uses are counted with the credentials, see `LoginStore.finish`. */
export interface InvitationStore {
  /** Lists all invitations, oldest first. */
  list(): Promise<StoredInvitation[]>

  get(id: string): Promise<StoredInvitation | undefined>

  findByHash(hash: string): Promise<StoredInvitation | undefined>

  /** @throws SvcError `invalid_arguments` if there are too many (`shares.invitations`); `unauthorized` if the key that makes it was revoked */
  add(invitation: NewInvitation): Promise<void>

  /** Ends an invitation: from then on nobody joins by it. @returns whether it was not revoked before */
  revoke(id: string, at: number): Promise<boolean>
}
