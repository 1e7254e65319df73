/** Texts for the states and event types of webhooks. */
import type { TextKey } from '../i18n.ts'
import type { Look } from '../ui/marks.tsx'
import type { WebhookDelivery, WebhookEndpoint } from './endpoints.ts'

export const typeTexts: Readonly<Record<WebhookEndpoint['types'][number], TextKey>> = {
  'message.received': 'webhooks.type_received',
  'message.status': 'webhooks.type_status',
  'session.status': 'webhooks.type_session',
  'session.muted': 'webhooks.type_muted',
  'session.joined': 'webhooks.type_joined',
  'endpoint.disabled': 'webhooks.type_disabled',
  'audit.line': 'webhooks.type_audit',
  'backup.failed': 'webhooks.type_backup',
}

export const statusLooks: Readonly<Record<WebhookEndpoint['status'], Look>> = {
  active: { tone: 'good', text: 'webhooks.status_active' },
  failing: { tone: 'warn', text: 'webhooks.status_failing' },
  paused: { tone: '', text: 'webhooks.status_paused' },
  disabled: { tone: 'bad', text: 'webhooks.status_disabled' },
}

export const outcomeLooks: Readonly<Record<WebhookDelivery['outcome'], Look>> = {
  done: { tone: 'good', text: 'webhooks.outcome_done' },
  failed: { tone: 'warn', text: 'webhooks.outcome_failed' },
  gave_up: { tone: 'bad', text: 'webhooks.outcome_gave_up' },
}
