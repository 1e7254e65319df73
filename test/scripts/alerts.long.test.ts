/** Each alert of `scripts/deploy/prometheus-rules.yaml` by Prometheus itself: when it fires, and when it does not. */
import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folderOfTest } from '../support/folder.ts'
import type { Json } from '../support/service.ts'

const rules = join(import.meta.dir, '../../scripts/deploy/helm/svc/prometheus-rules.yaml')

/** Series of Prometheus with their values, one a minute; '': none. */
type Series = Record<string, string>

/** What a process reports while all is well. */
const usual: Series = {
  'up{job="svc",instance="@"}': '1x150',
  'svc_build_info{version="1",instance="@"}': '1x150',
  'svc_session_connected{session="s@",instance="@"}': '1x150',
  'svc_session_last_poll_age_seconds{session="s@",instance="@"}': '9x150',
  'svc_session_muted{session="s@",instance="@"}': '0x150',
  'svc_polls_total{outcome="empty",instance="@"}': '0+60x150',
  'svc_polls_total{outcome="failed",instance="@"}': '0x150',
  'svc_consumer_lag_messages{consumer="c",instance="@"}': '0x150',
  'svc_webhook_failing_seconds{webhook="e",instance="@"}': '0x150',
  'svc_webhook_lag_events{webhook="e",instance="@"}': '0x150',
  'svc_message_deliveries_total{outcome="unknown",instance="@"}': '0x150',
  'svc_http_request_duration_seconds_count{route="/tools",status="200",instance="@"}': '0+60x150',
  'svc_http_request_duration_seconds_count{route="/tools",status="500",instance="@"}': '0x150',
  'svc_backup_failed{instance="@"}': '0x150',
  'svc_tls_remaining_seconds{instance="@"}': '5184000x150',
  'svc_task_last_success_age_seconds{task="topics",instance="@"}': '1x150',
  'svc_wrong_tokens_total{instance="@"}': '0+5x150',
  'svc_retention_unread_messages_total{instance="@"}': '0x150',
}
const nodeOnly: Series = {
  'svc_node_lease_remaining_seconds{instance="@"}': '5x150',
  'svc_node_clock_offset_seconds{instance="@"}': '0.1x150',
  'svc_nodes{instance="@"}': '2x150',
  'svc_sessions_polled{instance="@"}': '1x150',
}
const of = (instance: string, series: Series): Series =>
  Object.fromEntries(Object.entries(series).map(([name, values]) => [name.replaceAll('@', instance), values]))
const cluster = { ...of('a', { ...usual, ...nodeOnly }), ...of('b', { ...usual, ...nodeOnly }) }
const single = of('a', { ...usual, 'svc_backup_age_seconds{instance="@"}': '3600+60x100 60+60x50' })
const none = (series: Series): Series => Object.fromEntries(Object.keys(series).map(name => [name, '']))

const worlds: readonly (readonly [fires: readonly string[], all: Series, changes: Series])[] = [
  [[], cluster, {}],
  [[], single, {}],
  [['SvcNodeDown'], cluster, { 'up{job="svc",instance="b"}': '1x100 0x50' }],
  [['SvcNodeDown', 'SvcNothingPolls'], single, { ...none(single), 'up{job="svc",instance="a"}': '0x150' }],
  [['SvcNothingPolls'], cluster, none(cluster)],
  [['SvcDatabaseUnreachable'], cluster, { 'svc_node_lease_remaining_seconds{instance="a"}': '5x100 0x50' }],
  [['SvcTaskFails'], single, { 'svc_task_last_success_age_seconds{task="topics",instance="a"}': '0+60x150' }],
  [['SvcClockWrong'], cluster, { 'svc_node_clock_offset_seconds{instance="b"}': '-3x150' }],
  [['SvcSessionsNotPolled'], cluster, { 'svc_sessions_polled{instance="b"}': '0x150' }],
  [
    ['SvcNodesMissing'],
    cluster,
    { 'svc_nodes{instance="a"}': '2x120 1x30', 'svc_nodes{instance="b"}': '2x120 1x30' },
  ],
  [
    ['SvcPollsFail'],
    single,
    {
      'svc_polls_total{outcome="failed",instance="a"}': '0+60x150',
      'svc_polls_total{outcome="empty",instance="a"}': '0x150',
    },
  ],
  [['SvcSessionExpired'], single, { 'svc_session_connected{session="sa",instance="a"}': '0x150' }],
  [
    ['SvcSessionSilent'],
    single,
    { 'svc_session_last_poll_age_seconds{session="sa",instance="a"}': '9+60x150' },
  ],
  [['SvcSessionMuted'], single, { 'svc_session_muted{session="sa",instance="a"}': '1x150' }],
  [['SvcReaderBehind'], single, { 'svc_consumer_lag_messages{consumer="c",instance="a"}': '1001x150' }],
  [['SvcWebhookFailing'], single, { 'svc_webhook_failing_seconds{webhook="e",instance="a"}': '0+60x150' }],
  [['SvcWebhookBehind'], single, { 'svc_webhook_lag_events{webhook="e",instance="a"}': '1001x150' }],
  [
    ['SvcSendsUnknown'],
    single,
    { 'svc_message_deliveries_total{outcome="unknown",instance="a"}': '0x145 6x5' },
  ],
  [
    ['SvcCallsFail'],
    single,
    {
      'svc_http_request_duration_seconds_count{route="/tools",status="500",instance="a"}': '0+6x150',
    },
  ],
  [['SvcVersionsDiffer'], cluster, { 'svc_build_info{version="2",instance="b"}': '1x150' }],
  [['SvcBackupTooOld'], single, { 'svc_backup_age_seconds{instance="a"}': '172800+60x150' }],
  [['SvcBackupTooOld'], single, { 'svc_backup_age_seconds{instance="a"}': '' }],
  [['SvcBackupFailed'], single, { 'svc_backup_failed{instance="a"}': '0x20 1x130' }],
  [['SvcCertificateEnds'], cluster, { 'svc_tls_remaining_seconds{instance="b"}': '1209500-60x150' }],
  [['SvcWrongTokens'], single, { 'svc_wrong_tokens_total{instance="a"}': '0+31x150' }],
  [['SvcRemovedUnread'], single, { 'svc_retention_unread_messages_total{instance="a"}': '0x140 1x10' }],
]

test.skipIf(!Bun.which('promtool'))('each fires for what it says, and none while all is well', () => {
  const tests = worlds.map(([fires, all, changes]) => ({
    interval: '1m',
    input_series: Object.entries({ ...all, ...changes })
      .filter(([, values]) => values !== '')
      .map(([series, values]) => ({ series, values })),
    promql_expr_test: [
      {
        expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: '150m',
        exp_samples: fires.map(alert => ({ labels: `{alertname="${alert}"}`, value: 1 })),
      },
    ],
  }))
  const file = join(folderOfTest(), 'worlds.yaml')
  writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: '1m', tests }))
  const { exitCode, stderr, stdout } = Bun.spawnSync(['promtool', 'test', 'rules', file])
  expect([exitCode, `${stdout}${stderr}`.match(/FAILED[\s\S]*/)?.[0]]).toEqual([0, undefined])
})

test('each alert is among them', () => {
  const { groups }: Json = Bun.YAML.parse(readFileSync(rules, 'utf8'))
  const alerts = groups.flatMap((group: Json) => group.rules.map(({ alert }: Json) => alert))
  expect([...new Set(worlds.flatMap(([fires]) => fires))].sort()).toEqual(alerts.sort())
})
