/**
 * Alerts of Alertmanager (webhook, version 4), of Grafana (webhook contact point), which has the same form with more
 * fields, and of Uptime Kuma.
 *
 * @see https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
 * @see https://github.com/prometheus/alertmanager/blob/main/template/template.go `Data`, `Alert`
 * @see https://github.com/grafana/alerting/blob/main/templates/template_data.go `ExtendedAlert`
 * @see https://github.com/louislam/uptime-kuma/blob/master/server/model/monitor.js `sendNotification`
 */
import type { SentNotice } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import { type NamedPriorities, readPriority } from '../../topics/priority.ts'
import { isWebAddress, joinLines, objectAt, textAt, textOf } from './sent-notice.ts'

type Json = Readonly<Record<string, unknown>>

/** Returns the alerts of a body; undefined if it has another form. */
export function readAlerts(json: Json, priorities: NamedPriorities = {}): SentNotice[] | undefined {
  const { alerts, heartbeat, monitor } = json
  if (isObject(heartbeat) && isObject(monitor) && textAt(heartbeat, 'monitorID') !== '')
    return [readHeartbeat(heartbeat, monitor, textAt(json, 'msg'))]
  if (!Array.isArray(alerts) || alerts.length === 0 || !alerts.every(isAlert)) return undefined
  const notices = alerts.map(alert => readAlert(alert, priorities))
  const left = Number(json.truncatedAlerts)
  if (!(left > 0)) return notices
  const text = `${left} more alerts of ${textOf(json.receiver)} were left out by their sender`
  return [...notices, { text, priority: 'default', fingerprint: `truncated ${textOf(json.groupKey)}` }]
}

/** Reads what Uptime Kuma says of a monitor. Its test, and certificates, have a message alone. */
function readHeartbeat(heartbeat: Json, monitor: Json, said: string): SentNotice {
  const [name, status] = [textAt(monitor, 'name'), textAt(heartbeat, 'status')]
  const host = [textAt(monitor, 'hostname'), textAt(monitor, 'port')].filter(Boolean).join(':')
  return {
    title: name,
    text: joinLines(said.replace(`[${name}] `, ''), host),
    priority: status === '0' ? 'high' : 'default',
    click: textAt(monitor, 'url'),
    fingerprint: `monitor ${textAt(heartbeat, 'monitorID')} ${name}`,
    resolved: status === '1',
  }
}

const isAlert = (alert: unknown): alert is Json =>
  isObject(alert) && isObject(alert.labels) && (alert.status === 'firing' || alert.status === 'resolved')

/** Labels that are in the title, or say nothing to a person. */
const unshownLabels = new Set(['alertname', 'severity', 'grafana_folder', '__name__'])

function readAlert(alert: Json, priorities: NamedPriorities): SentNotice {
  const labels = objectAt(alert, 'labels')
  const annotations = objectAt(alert, 'annotations')
  const explained = ['summary', 'description', 'message'].map(key => textAt(annotations, key))
  const severity = textAt(labels, 'severity')
  const { priority = 'default', unknown } = readPriority(severity, priorities)
  const shown = Object.entries(labels).filter(([name]) => !unshownLabels.has(name) && !name.startsWith('__'))
  const image = textAt(alert, 'imageURL')
  const pages = [textAt(annotations, 'runbook_url'), textAt(alert, 'panelURL'), textAt(alert, 'dashboardURL')]
  return {
    title: textAt(labels, 'alertname') || 'Alert',
    text: joinLines(...new Set(explained), ...linesOf(shown), valuesOf(alert)),
    priority,
    ...(unknown !== undefined && { unread: { severity: unknown } }),
    ...(severity && { tags: [severity] }),
    click: pages.find(isWebAddress) ?? '',
    // Without a fingerprint, the labels are what makes it the same alert.
    fingerprint: textAt(alert, 'fingerprint') || linesOf(Object.entries(labels)).sort().join(),
    resolved: alert.status === 'resolved',
    ...(isWebAddress(image) && { file: { url: image } }),
  }
}

const linesOf = (labels: readonly [string, unknown][]): string[] =>
  labels.map(([name, value]) => `${name}: ${textOf(value)}`)

/** Grafana's values of the expressions of a rule: `B=44.24, C=1`. */
const valuesOf = (alert: Json): string =>
  Object.entries(objectAt(alert, 'values'))
    .flatMap(([name, value]) => (typeof value === 'number' ? `${name}=${Number(value.toPrecision(4))}` : []))
    .join(', ')
