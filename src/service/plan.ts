/** Types of a service: what to run, and what its manager reports. */

import { SvcError } from '../model/error.ts'

/** A service of the machine, or of one user. */
type ServiceScope = 'system' | 'user'

/** Identifies a service. */
export interface ServiceName {
  readonly scope: ServiceScope
  /** Name of its unit and of its files. */
  readonly name: string
}

/** Returns true if both systemd and launchd accept the name. */
export const isServiceName = (name: string): boolean => /^[a-z][a-z0-9-]{0,30}$/.test(name)

/** Base folders; tests use others. */
export interface ServiceFolders {
  readonly home: string
  /** `~/.config`, or what the user has instead. */
  readonly config: string
  /** `/etc` */
  readonly etc: string
  /** `/var/lib` */
  readonly lib: string
  /** `/Library` of macOS. */
  readonly library: string
}

/** Base folders of the machine. */
export const machineFolders = { etc: '/etc', lib: '/var/lib', library: '/Library' } as const

/** A service to install. All paths are absolute. */
export interface ServicePlan extends ServiceName {
  /** Program and arguments. */
  readonly command: readonly string[]
  readonly dataDir: string
  /** Further folders that the service writes to. */
  readonly writtenFolders: readonly string[]
  /** Files of its options that it reads. */
  readonly readFiles?: readonly string[]
  /** User that it runs as; only for a service of the machine. */
  readonly account?: ServiceAccount
  /** Addresses whose sockets systemd holds for it: `127.0.0.1:8000`. */
  readonly heldAddresses?: readonly string[]
  /** True if it binds a port below 1024. */
  readonly bindsLowPort: boolean
  /** Seconds that it goes on serving after it was asked to stop. Its own end takes up to 5 s more. */
  readonly drain: number
  /** True if it notifies systemd when it listens. */
  readonly notifies: boolean
  /** Its environment variables, which may be secret. */
  readonly environment: Readonly<Record<string, string>>
  /** Content of the file that `--token-file` names; absent: no such file is written. */
  readonly token?: string
}

/** A user of the operating system. */
export interface ServiceAccount {
  readonly name: string
  readonly uid: number
  readonly gid: number
  readonly home: string
}

/** A file of a service. */
export interface ServiceFile {
  readonly path: string
  readonly text: string
  /** 0644 for the definition, 0600 for secrets. */
  readonly mode: 0o644 | 0o600
  /** Owner of the file; absent: the user who installs. */
  readonly owner?: ServiceAccount
}

/** State of a service, as its manager reports it. */
export interface ServiceState {
  readonly loaded: boolean
  /** True if it starts with the machine, or when the user logs in. */
  readonly enabled: boolean
  /** State in the manager's words: active, failed, activating … */
  readonly state: string
  readonly running: boolean
  readonly pid?: number
  /** Unix ms. */
  readonly since?: number
  readonly restarts?: number
  /** How it ended last, if it failed. */
  readonly ended?: string
}

/** Returns the file that `--token-file` names; empty if the plan has no token. */
export const tokenFilesOf = ({ token, account }: ServicePlan, path: string): ServiceFile[] =>
  token === undefined ? [] : [{ path, text: `${token}\n`, mode: 0o600, owner: account }]

/** The files of a service. */
interface ServiceFiles {
  /** All possible paths. The last one is the definition. */
  readonly paths: readonly string[]
  readonly tokenPath: string
  /** Returns the files for a plan; the last one is the definition. */
  createFiles(plan: ServicePlan): ServiceFile[]
  /** The paths of those that are no secrets: the definition, after the unit of its sockets with systemd. */
  readonly definitions: readonly string[]
  /** Returns true for the text of one of them that svc wrote. */
  isOwn(text: string): boolean
  /** Returns program and arguments from a definition that svc wrote; undefined for any other. */
  parseCommand(definition: string): string[] | undefined
}

/** The manager (systemd or launchd) of one service. */
export interface ServiceManager {
  readonly title: 'systemd' | 'launchd'
  readonly files: ServiceFiles
  /** Commands to recommend to people. */
  readonly advice: { readonly logs: string; readonly restart: string }
  /**
   * Checks that the manager runs.
   *
   * @throws SvcError `internal` if it does not
   */
  ensureReachable(): Promise<void>
  /**
   * Starts or restarts it with its current files, and makes it start with the machine.
   *
   * @throws SvcError `internal` if it does not start
   */
  start(): Promise<void>
  /** Stops it, disables its start with the machine, then calls `remove`. */
  stop(remove: () => Promise<void>): Promise<void>
  readState(): Promise<ServiceState>
}

/** Returns the path of the definition. */
export const definitionOf = ({ files }: ServiceManager): string => files.paths.at(-1) ?? ''

/**
 * Returns the error for a service that does not start.
 *
 * @param message error message of its manager
 */
export const notStartedError = (message: string, logs: string): SvcError =>
  new SvcError('internal', `the service does not start: ${message}`, {
    hint: `Its log tells the reason: ${logs}. The program must be in a folder where its user may run it, such as /usr/local/bin. Fix that, then install again.`,
  })
