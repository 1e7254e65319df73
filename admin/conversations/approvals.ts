/** Who let the drafts of the open conversation go, for a caller who may read the audit log. */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type Answer, call } from '../api.ts'
import { may } from '../rights.ts'
import { asksFirst } from '../talks.ts'
import type { Thread } from './thread.ts'

export type Approval = Answer<'list_audit'>[number]

const mostAsked = 200
/** By the row id of the message. */
export const approvals = signal<ReadonlyMap<number, Approval>>(new Map())

/** Loads `approvals`, and again when a draft of the conversation is decided. */
export function useApprovals({ messages, userId: user }: Thread): void {
  const drafts = messages.value.filter(asksFirst).length
  const wasSent = messages.value.some(one => one.direction === 'sent' && !asksFirst(one))
  useEffect(() => {
    if (!wasSent || !may('audit')) return
    const take = (lines: readonly Approval[]) => {
      const made = lines.filter(({ outcome = 'done' }) => outcome === 'done').toReversed()
      approvals.value = new Map(made.flatMap(line => line.messages?.map(id => [id, line] as const) ?? []))
    }
    // Without them, the bubbles say who wrote the messages.
    call('list_audit', { operation: 'approve_outbox', user, limit: mostAsked }).then(take, () => {})
  }, [user, drafts, wasSent])
}
