/** What is to run as a service, and what its manager says about it: the types of this room. */

import { SvcError } from '../model/error.ts'

/** Of the machine, for all users; or of one user. */
export type Scope = 'system' | 'user'

/** Which service is meant. */
export interface ServiceName {
  readonly scope: Scope
  /** Of its unit, and of what belongs to it. */
  readonly name: string
}

/** Whether systemd and launchd both accept the name. */
export const isServiceName = (name: string): boolean => /^[a-z][a-z0-9-]{0,30}$/.test(name)

/** Where things lie; a test gives others. */
export interface ServiceFolders {
  readonly home: string
  /** `~/.config`, or where this user keeps it instead. */
  readonly config: string
  /** `/etc` */
  readonly etc: string
  /** `/var/lib` */
  readonly lib: string
  /** `/Library` of macOS. */
  readonly library: string
}

/** The machine's own places. */
export const machineFolders = { etc: '/etc', lib: '/var/lib', library: '/Library' } as const

/** A service, as it is to be installed: every path absolute. */
export interface ServicePlan extends ServiceName {
  /** Program and arguments, whole. */
  readonly command: readonly string[]
  readonly dataDir: string
  /** Further folders that it writes to. */
  readonly writes: readonly string[]
  /** The user it runs as; for a service of the machine only. */
  readonly account?: Account
  /** It binds a port below 1024. */
  readonly lowPort: boolean
  /** It tells systemd when it listens. */
  readonly notifies: boolean
  /** Its environment variables; they may be secret. */
  readonly environment: Readonly<Record<string, string>>
  /** What the file that `--token-file` names holds; absent: none is written. */
  readonly token?: string
}

/** A user of the machine. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
}

/** One file of a service. */
export interface ServiceFile {
  readonly path: string
  readonly text: string
  /** 0644: everybody may read the definition. 0600: secrets. */
  readonly mode: 0o644 | 0o600
  /** The user that gets the file; absent: the one who writes it. */
  readonly owner?: Account
}

/** What the manager says of a service. */
export interface ServiceState {
  readonly loaded: boolean
  /** Starts with the machine, or when the user logs in. */
  readonly enabled: boolean
  /** In the manager's words: active, failed, activating … */
  readonly state: string
  readonly running: boolean
  readonly pid?: number
  /** Unix ms. */
  readonly since?: number
  readonly restarts?: number
  /** How it ended last, if it did not end well. */
  readonly ended?: string
}

/** The file that `--token-file` names, if the plan has a token. */
export const tokenFile = ({ token, account }: ServicePlan, path: string): ServiceFile[] =>
  token === undefined ? [] : [{ path, text: `${token}\n`, mode: 0o600, owner: account }]

/** The files of one service. */
export interface ServiceFiles {
  /** Every file that there may be; the last is the definition, which makes it a service. */
  readonly paths: readonly string[]
  readonly tokenPath: string
  /** The files for a plan; the definition is the last. */
  of(plan: ServicePlan): ServiceFile[]
  /** Program and arguments of a definition that svc wrote; undefined for any other. */
  commandOf(definition: string): string[] | undefined
}

/** systemd or launchd, for one service. */
export interface ServiceManager {
  readonly title: 'systemd' | 'launchd'
  readonly files: ServiceFiles
  /** Commands for people. */
  readonly advice: { readonly logs: string; readonly restart: string }
  /** @throws SvcError `internal` where this manager does not run */
  ensureReachable(): Promise<void>
  /** Starts it anew with the files as they are, now and with the machine. @throws SvcError `internal` when it does not start */
  start(): Promise<void>
  /** Stops it, now and with the machine, then calls `remove`. */
  stop(remove: () => Promise<void>): Promise<void>
  state(): Promise<ServiceState>
}

/** The file that makes it a service. */
export const definitionOf = ({ files }: ServiceManager): string => files.paths.at(-1) ?? ''

/** The service did not start; `said` is what its manager has to say of it. */
export const notStarted = (said: string, logs: string): SvcError =>
  new SvcError('internal', `the service does not start: ${said}`, {
    hint: `Its log says why: ${logs}. Its program must lie where its user may run it, as in /usr/local/bin. Mend that, then install again.`,
  })
