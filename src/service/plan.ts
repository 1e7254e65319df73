/** What is to run as a service, and what its manager knows of it: the words of this room. */

/** Of the machine, for all users; or of one user. */
export type Scope = 'system' | 'user'

/** Which service is meant. */
export interface ServiceName {
  readonly scope: Scope
  /** Of its unit, and of what belongs to it. */
  readonly name: string
}

/** Whether a service may be called so, by systemd and by launchd. */
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
  /** Whom it runs as, in the system's scope. */
  readonly account?: Account
  /** It binds a port below 1024. */
  readonly lowPort: boolean
  /** It tells systemd when it listens. */
  readonly notifies: boolean
  /** What it finds in its environment: may be secret. */
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
  /** Whom it is given to, where that is not who writes it. */
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

/** systemd or launchd, for one service. */
export interface ServiceManager {
  readonly title: 'systemd' | 'launchd'
  /** The file that makes it a service. */
  readonly path: string
  /** Where `token` and `environment` of its plan are kept. */
  readonly tokenPath: string
  readonly environmentPath: string
  /** The name of the service that a file of this name beside `path` is of. */
  nameOf(file: string): string | undefined
  /** The files of a service; the definition is the last. */
  files(plan: ServicePlan): ServiceFile[]
  /** Program and arguments of a definition that svc wrote. */
  commandOf(text: string): string[] | undefined
  /** @throws SvcError where this manager does not run, or cannot be reached */
  check(): Promise<void>
  /** Another definition of that name, not at `path`. */
  elsewhere(): Promise<string | undefined>
  /** Starts it anew with the files as they are, now and with the machine. @throws Failed */
  start(): Promise<void>
  /** Stops it, now and with the machine; one that it does not know is fine. @throws Failed */
  stop(): Promise<void>
  /** After the files are gone. */
  forget(): Promise<void>
  state(): Promise<ServiceState>
  /** The last lines that the service wrote after `since`, Unix ms. */
  lastWords(since: number): Promise<string[]>
  /** Commands for people. */
  readonly advice: { readonly logs: string; readonly restart: string }
}

/** What the manager said when it refused. */
export class Failed extends Error {}
