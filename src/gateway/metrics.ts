/** The Prometheus metrics: counted from events on the bus, or read from the store on request. */
import type { Accounts } from '../accounts/accounts.ts'
import { systemClock } from '../platform/clock.ts'
import {
  createFamily,
  Durations,
  type Family,
  formatMetrics,
  listProcessMetrics,
  MetricCounter,
} from '../platform/metrics.ts'
import { type Bus, RunningPart, type Runtime } from '../platform/runtime.ts'
import type { ConsumerList } from '../receive/consumers.ts'
import { dayMs } from '../storage/retention.ts'
import type { Node } from '../storage/storage.ts'
import type { Store } from '../storage/store.ts'
import { tryOutcomes } from '../storage/webhooks.ts'

export interface MetricsPorts {
  store: Pick<Store, 'backlog' | 'backups' | 'outbox' | 'topics' | 'webhooks'>
  accounts: Pick<Accounts, 'list'>
  consumers: Pick<ConsumerList, 'list'>
  /** Absent on one machine. */
  node?: Pick<Node, 'clockOffsetMs' | 'leaseLeftMs' | 'list'> | undefined
  version: string
}

/** Maximum number of consumers in the metrics. Any caller can create new ones; those of keys hide none of the others. */
const maxConsumers = 100
/** A consumer that nobody used for so long is probably gone for good. */
const usedMs = 7 * dayMs

/** The certificate of https, as it is now. */
export interface ServedCertificate {
  readonly current: { readonly expiresAt: number }
}

export class Metrics extends RunningPart<MetricsPorts> {
  readonly #requests = new Durations(
    'svc_http_request_duration_seconds',
    'Time from an HTTP request to the beginning of its answer, by route template.',
    ['method', 'route', 'status'],
  )
  readonly #polls = new MetricCounter('svc_polls_total', 'Polls of WeChat of this process, by outcome.', [
    'outcome',
  ])
  readonly #messages = new MetricCounter(
    'svc_messages_total',
    'Messages that this process received from WeChat, or that WeChat took from it.',
    ['direction', 'kind'],
  )
  readonly #sends = new MetricCounter('svc_sends_total', 'Calls of send by their result or error.', [
    'outcome',
  ])
  readonly #wrongTokens = new MetricCounter(
    'svc_wrong_tokens_total',
    'Calls without the right token, and refused sign-ins to the panel.',
    [],
  )
  readonly #unread = new MetricCounter(
    'svc_retention_unread_messages_total',
    'Messages that retention removed before a consumer had read them, counted for each such consumer.',
    [],
  )
  #certificate: ServedCertificate | undefined
  readonly #deliveries = new MetricCounter(
    'svc_message_deliveries_total',
    'Messages handed to WeChat, those of the outbox included, by what became of them.',
    ['outcome'],
  )

  constructor(ports: MetricsPorts, runtime: Runtime) {
    super(ports, runtime)

    this.#listen(runtime.bus)
    // Alerts look at their increase.
    for (const counter of [this.#wrongTokens, this.#unread]) counter.addCount(0)
    this.#deliveries.addCount(0, 'unknown')
  }

  #listen(bus: Bus): void {
    bus.on('polled', outcome => this.#polls.add(outcome))
    bus.on('received', kind => this.#messages.add('received', kind))
    bus.on('unreadRemoved', count => this.#unread.addCount(count))
    bus.on('sent', outcome => this.#sends.add(outcome))
    bus.on('handedOver', (status, kind = 'UNKNOWN') => {
      this.#deliveries.add(status)
      if (status === 'accepted' || status === 'suspect') this.#messages.add('sent', kind)
    })
  }

  /** Counts an answered HTTP call. @param call.route its template; never text that a caller can choose */
  answered(call: { method: string; route: string; status: number; ms: number }): void {
    this.#requests.observe(call.ms / 1000, call.method, call.route, String(call.status))
  }

  /** Counts a call without the right token. */
  refused(): void {
    this.#wrongTokens.add()
  }

  /** Reports the expiry of this certificate from now on. */
  watchCertificate(certificate: ServedCertificate): void {
    this.#certificate = certificate
  }

  /** Returns all metrics in Prometheus text format. Leaves out what cannot be read at the moment. */
  async text(): Promise<string> {
    const counted = [
      ...[this.#requests, this.#polls, this.#messages, this.#sends, this.#deliveries],
      ...[this.#wrongTokens, this.#unread],
    ]
    const found = await Promise.allSettled([
      this.#readSessions(),
      this.#readOutbox(),
      this.#readConsumers(),
      this.#readReaders(),
      this.#readWebhooks(),
      this.#readTopics(),
      this.#readBackups(),
      this.#readNodes(),
    ])
    // One line: while the store is away, all of them fail.
    const failed = found.filter(({ status }) => status === 'rejected')
    if (failed[0]?.status === 'rejected')
      this.runtime.log.warn('metrics cannot be looked up', {
        error: failed[0].reason,
        lookups: failed.length,
      })
    const families = found.flatMap(one => (one.status === 'fulfilled' ? one.value : []))
    const build = createFamily('svc_build_info', 'The version that runs; always 1.', [
      [{ version: this.ports.version }, 1],
    ])
    const own = [
      ...this.#listTasks(),
      ...this.#listLease(),
      ...this.#listCertificate(),
      ...listProcessMetrics(),
    ]
    return formatMetrics([build, ...counted, ...families, ...own])
  }

  #listTasks(): Family[] {
    const all = this.runtime.tasks.list()
    return [
      createFamily(
        'svc_task_last_success_age_seconds',
        'Time since a task in the background last succeeded, or since it was started.',
        all.map(({ name, success_age_ms }) => [{ task: name }, success_age_ms / 1000]),
      ),
      createFamily(
        'svc_task_failures_total',
        'Runs of a task in the background, and rows in them, that failed.',
        all.map(({ failures, name }) => [{ task: name }, failures]),
        'counter',
      ),
    ]
  }

  /** Needs no database, so that a node reports that its database is away. */
  #listLease(): Family[] {
    const { node } = this.ports
    if (!node) return []
    return [
      createFamily(
        'svc_node_lease_remaining_seconds',
        'Time until the lease of this node is over; 0: it polls nothing.',
        [[{}, node.leaseLeftMs / 1000]],
      ),
      createFamily(
        'svc_node_clock_offset_seconds',
        'How far the clock of the database is ahead of this node’s.',
        [[{}, node.clockOffsetMs / 1000]],
      ),
    ]
  }

  async #readNodes(): Promise<Family[]> {
    const nodes = (await this.ports.node?.list()) ?? []
    if (nodes.length === 0) return []
    const alive = nodes.filter(node => node.lease_left_ms > 0)
    return [
      createFamily('svc_nodes', 'Nodes on the database whose lease lasts.', [[{}, alive.length]]),
      createFamily(
        'svc_sessions_polled',
        'Sessions that this node polls.',
        nodes.filter(node => node.is_this).map(({ accounts }) => [{}, accounts]),
      ),
    ]
  }

  #listCertificate(): Family[] {
    if (!this.#certificate) return []
    const leftMs = this.#certificate.current.expiresAt - this.runtime.clock.now()
    return [
      createFamily('svc_tls_remaining_seconds', 'Time until the certificate expires; negative afterwards.', [
        [{}, leftMs / 1000],
      ]),
    ]
  }

  async #readSessions(): Promise<Family[]> {
    // Any caller that may log in can begin logins under new names.
    const sessions = (await this.ports.accounts.list()).filter(({ status }) => status !== 'logging_in')
    const now = this.runtime.clock.now()
    return [
      createFamily(
        'svc_session_connected',
        'Whether a session is connected.',
        sessions.map(({ name, connected }) => [{ session: name }, connected ? 1 : 0]),
      ),
      createFamily(
        'svc_session_muted',
        'Whether WeChat may have muted the account of a session.',
        sessions.map(({ name, muted_since }) => [{ session: name }, muted_since === undefined ? 0 : 1]),
      ),
      createFamily(
        'svc_session_last_poll_age_seconds',
        'Time since WeChat last answered a poll of a session.',
        sessions.flatMap(({ name, last_poll_at }) =>
          last_poll_at === undefined ? [] : [[{ session: name }, (now - last_poll_at) / 1000] as const],
        ),
      ),
    ]
  }

  async #readOutbox(): Promise<Family[]> {
    const { messages, oldestAt } = await this.ports.store.outbox.getDepth()
    const ageMs = oldestAt === undefined ? 0 : Math.max(0, this.runtime.clock.now() - oldestAt)
    return [
      createFamily('svc_outbox_messages', 'Messages that wait for their users.', [[{}, messages]]),
      createFamily('svc_outbox_oldest_age_seconds', 'Time since the call of the oldest of them.', [
        [{}, ageMs / 1000],
      ]),
    ]
  }

  async #readWebhooks(): Promise<Family[]> {
    const { backlog, webhooks } = this.ports.store
    const all = await webhooks.list()
    const lags = await Promise.all(
      all.map(async ({ id, position }) => [{ webhook: id }, await backlog.countEvents(position)] as const),
    )
    return [
      createFamily(
        'svc_webhook_tries_total',
        'Tries to deliver events to an endpoint, by whatever process, by outcome.',
        all.flatMap(({ id, tries }) =>
          tryOutcomes.map(outcome => [{ webhook: id, outcome }, tries[outcome]] as const),
        ),
        'counter',
      ),
      createFamily('svc_webhook_lag_events', 'Events in the log that an endpoint has not looked at.', lags),
      createFamily(
        'svc_webhook_failing_seconds',
        'Time since nothing was delivered to an endpoint; 0 while it is well, or a person paused it.',
        all.map(({ disabled, failing_since: since, id, paused }) => [
          { webhook: id },
          since === undefined || (paused && !disabled) ? 0 : (this.runtime.clock.now() - since) / 1000,
        ]),
      ),
    ]
  }

  async #readTopics(): Promise<Family[]> {
    const { topics } = this.ports.store
    const [all, waiting] = await Promise.all([topics.list(), topics.countWaiting()])
    return [
      createFamily(
        'svc_topic_waiting_notices',
        'Notices that wait in a topic, each once for each person.',
        all.map(({ name, people }) => [
          { topic: name },
          people.reduce((sum, { id }) => sum + (waiting.get(id) ?? 0), 0),
        ]),
      ),
      createFamily(
        'svc_topic_people',
        'People of a topic.',
        all.map(({ name, people }) => [{ topic: name }, people.length]),
      ),
      createFamily(
        'svc_topic_notices_total',
        'Notices of a topic that have ended, each once for each person, by outcome.',
        all.flatMap(({ expired, name, sent }) => [
          [{ topic: name, outcome: 'sent' }, sent] as const,
          [{ topic: name, outcome: 'expired' }, expired] as const,
        ]),
        'counter',
      ),
    ]
  }

  /** Read from the store, so every process of the directory reports the same. No backup: no age, no size. */
  async #readBackups(): Promise<Family[]> {
    const { backups } = this.ports.store
    const [[newest], failure] = await Promise.all([backups.list(), backups.getFailure()])
    // A backup has the time of the machine, also in a sandbox.
    const ageMs = newest && Math.max(0, systemClock.now() - newest.created_at)
    return [
      createFamily(
        'svc_backup_age_seconds',
        'Time since the newest backup; absent if there is none.',
        ageMs === undefined ? [] : [[{}, ageMs / 1000]],
      ),
      createFamily(
        'svc_backup_size_bytes',
        'Size of the newest backup; absent if there is none.',
        newest ? [[{}, newest.size]] : [],
      ),
      createFamily('svc_backup_failed', 'Whether the last backup by schedule failed.', [
        [{}, failure ? 1 : 0],
      ]),
    ]
  }

  async #readReaders(): Promise<Family[]> {
    const readers = await this.ports.store.backlog.listReaderLags(maxConsumers)
    return [
      createFamily(
        'svc_event_reader_lag_events',
        'Events after the stored position of a named reader of the stream. The position moves when the reader connects again and sends the cursor it has seen; until then this number grows, however fast it reads.',
        readers.map(({ reader, events }) => [{ consumer: reader }, events]),
      ),
    ]
  }

  async #readConsumers(): Promise<Family[]> {
    const since = this.runtime.clock.now() - usedMs
    const all = await this.ports.consumers.list({ most: maxConsumers, since })
    return [
      createFamily(
        'svc_consumer_lag_messages',
        `Received messages that a consumer has not got yet; for the ${maxConsumers} that read last, those of keys after the others, and not for those that nobody used for a week.`,
        all.map(({ name, unread }) => [{ consumer: name }, unread]),
      ),
    ]
  }
}
