/**
 * The MCP clients that svc can set up: where each one stores its servers, and the form of an entry. To add
 * a client, add an entry here. Source of each: the client's own documentation of its MCP settings; the
 * comment in the entry names it.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { type Edit, type SettingsFormat, type Step, valueAt } from './edit.ts'
import { json } from './json.ts'
import { toml } from './toml.ts'

/** Settings for all work of a user, or for one project. */
export type SettingsScope = 'user' | 'project'

/** How a client reaches svc: by a command, or by a URL. */
export type McpTarget =
  | { readonly command: readonly string[] }
  | {
      readonly url: string
      /** Command that connects standard input and output to `url`, with the token in SVC_TOKEN. */
      readonly bridge: readonly string[]
      /** Name of the environment variable with the bearer token. */
      readonly tokenVariable?: string
    }

/** Returns the server with a consumer: messages are read at the position of that name. */
export function withConsumer(server: McpTarget, consumer: string | undefined): McpTarget {
  if (consumer === undefined) return server
  const words = ['--consumer', consumer]
  return 'command' in server
    ? { command: [...server.command, ...words] }
    : { ...server, url: `${server.url}?consumer=${consumer}`, bridge: [...server.bridge, ...words] }
}

export interface Client {
  /** Name to type on the command line. */
  readonly name: string
  readonly title: string
  readonly format: SettingsFormat
  /**
   * Candidates for its settings file: the first that exists counts, else the first. Absent if the client
   * does not have this scope.
   */
  readonly files: Partial<Record<SettingsScope, (folders: UserFolders) => string[]>>
  /** Path of the servers in the settings. `settings` is the content of the file. */
  serversPath(settings: unknown): readonly string[]
  /** Returns the entry of a server, and further edits that it needs. */
  toEntry(server: McpTarget, name: string): { value: object; also?: readonly Edit[] }
  /** Further paths to remove with a server. */
  furtherPaths?(name: string): readonly Step[][]
  /** True if the client does not substitute variables: the user writes the token into the entry. */
  readonly tokenInEntry?: boolean
  /** What the user does next. */
  readonly next: string
  /** What the user does next after `--project`; default `next`. */
  readonly projectNext?: string
}

/** Returns the folder where programs store their settings on this system. */
const programFolder = ({ platform, home, appData, xdgConfig }: UserFolders): string =>
  platform === 'darwin'
    ? join(home, 'Library', 'Application Support')
    : platform === 'win32'
      ? appData
      : xdgConfig

const toStdio = ([command, ...args]: readonly string[]) => ({ command, args })
/** The bridge as a command, with an empty SVC_TOKEN for the user to fill in if a token is needed. */
const toBridge = ({ bridge, tokenVariable }: Extract<McpTarget, { url: string }>) => ({
  ...toStdio(bridge),
  ...(tokenVariable !== undefined && { env: { SVC_TOKEN: '' } }),
})
const toBearer = (reference: string) => ({ headers: { Authorization: `Bearer ${reference}` } })

/** Makes the entry that most clients use: `command` and `args`, or a URL with headers. */
const createClientEntry =
  (
    reference: (variable: string) => string,
    own: { stdio?: object; http?: object; urlKey?: string } = {},
  ): Client['toEntry'] =>
  server => {
    if ('command' in server) return { value: { ...own.stdio, ...toStdio(server.command) } }
    const { url, tokenVariable } = server
    const token = tokenVariable !== undefined && toBearer(reference(tokenVariable))
    return { value: { ...own.http, [own.urlKey ?? 'url']: url, ...token } }
  }

/** Id of the input by which VS Code asks the user for the token. */
const inputId = (name: string) => `${name}-token`
const isInput = (name: string) => (element: unknown) => valueAt(element, ['id']) === inputId(name)

const clientRows: readonly (Omit<Client, 'format' | 'serversPath'> & Partial<Client>)[] = [
  {
    // Source: "Connect Claude Code to tools via MCP" (scopes, and ${VAR} in headers).
    name: 'claude-code',
    title: 'Claude Code',
    files: {
      user: ({ home, claudeCode }) => [join(claudeCode ?? home, '.claude.json')],
      project: ({ project }) => [join(project, '.mcp.json')],
    },
    toEntry: createClientEntry(variable => `\${${variable}}`, {
      stdio: { type: 'stdio' },
      http: { type: 'http' },
    }),
    next: 'Restart Claude Code; /mcp there shows the connection.',
    projectNext:
      'Restart Claude Code in this folder. It asks whether it may use the server; until you agree, /mcp there lists it as pending.',
  },
  {
    // Source: "Connect to local MCP servers" of the protocol's documentation. Servers with a URL can be
    // added only in its settings page. Anthropic's cloud calls them, which cannot reach an address of this
    // machine or network.
    name: 'claude-desktop',
    title: 'Claude Desktop',
    files: {
      user: folders =>
        [...listWindowsAppFolders(folders), join(programFolder(folders), 'Claude')].map(dir =>
          join(dir, 'claude_desktop_config.json'),
        ),
    },
    toEntry: server => ({ value: 'command' in server ? toStdio(server.command) : toBridge(server) }),
    tokenInEntry: true,
    next: 'Quit Claude Desktop (closing its window is not enough) and start it again.',
  },
  {
    // Source: "Model Context Protocol" of Cursor (${env:NAME} in headers).
    name: 'cursor',
    title: 'Cursor',
    files: {
      user: ({ home }) => [join(home, '.cursor', 'mcp.json')],
      project: ({ project }) => [join(project, '.cursor', 'mcp.json')],
    },
    toEntry: createClientEntry(variable => `\${env:${variable}}`),
    next: 'Restart Cursor, and check in its settings under MCP that the server is on.',
  },
  {
    // Source: "MCP configuration reference" of VS Code: servers, and inputs, which it asks for once and
    // stores itself.
    name: 'vscode',
    title: 'VS Code',
    files: {
      user: folders => [join(programFolder(folders), 'Code', 'User', 'mcp.json')],
      project: ({ project }) => [join(project, '.vscode', 'mcp.json')],
    },
    serversPath: () => ['servers'],
    toEntry(server, name) {
      if ('command' in server) return { value: { type: 'stdio', ...toStdio(server.command) } }
      const value = { type: 'http', url: server.url }
      if (server.tokenVariable === undefined) return { value }
      const description = `Token of svc, as in ${server.tokenVariable}`
      return {
        value: { ...value, ...toBearer(`\${input:${inputId(name)}}`) },
        also: [
          {
            path: ['inputs', isInput(name)],
            value: { type: 'promptString', id: inputId(name), description, password: true },
          },
        ],
      }
    },
    furtherPaths: name => [['inputs', isInput(name)]],
    next: 'In VS Code run the command "MCP: List Servers", choose the server and start it.',
  },
  {
    // Source: "Model Context Protocol" of Codex: tables of config.toml, also in a trusted project. Unless a
    // server is `required`, Codex 0.169 waits a second or less for it, then works without it.
    name: 'codex',
    title: 'Codex',
    format: toml,
    files: {
      user: ({ home, codex }) => [join(codex ?? join(home, '.codex'), 'config.toml')],
      project: ({ project }) => [join(project, '.codex', 'config.toml')],
    },
    serversPath: () => ['mcp_servers'],
    toEntry: server =>
      'command' in server
        ? { value: { ...toStdio(server.command), required: true } }
        : {
            value: {
              url: server.url,
              required: true,
              ...(server.tokenVariable !== undefined && { bearer_token_env_var: server.tokenVariable }),
            },
          },
    next: 'Restart Codex; /mcp there shows the connection. At its start it waits for svc, and reports when svc cannot be started or reached.',
  },
  {
    // Sources: "MCP servers" and "Config" of OpenCode. Version 1 has the servers under `mcp`, version 2
    // under `mcp.servers`; version 2 also reads the old place ("Migrate from V1"). So `mcp`, unless the
    // file uses the new place.
    name: 'opencode',
    title: 'OpenCode',
    files: {
      user: ({ xdgConfig }) =>
        ['opencode.json', 'opencode.jsonc'].map(file => join(xdgConfig, 'opencode', file)),
      project: ({ project }) => ['opencode.json', 'opencode.jsonc'].map(file => join(project, file)),
    },
    serversPath(settings) {
      const servers = valueAt(settings, ['mcp', 'servers'])
      const isMap = typeof servers === 'object' && servers !== null && !('type' in servers)
      return isMap ? ['mcp', 'servers'] : ['mcp']
    },
    toEntry(server) {
      if ('command' in server) return { value: { type: 'local', command: server.command } }
      const { url, tokenVariable } = server
      return {
        value: {
          type: 'remote',
          url,
          // Without this OpenCode would first search for a login page.
          oauth: false,
          ...(tokenVariable !== undefined && toBearer(`{env:${tokenVariable}}`)),
        },
      }
    },
    next: 'Restart OpenCode; opencode mcp list shows the connection.',
  },
  {
    // Source: "MCP servers with the Gemini CLI" (httpUrl, and $NAME in settings).
    name: 'gemini',
    title: 'Gemini CLI',
    files: {
      user: ({ home, geminiHome }) => [join(geminiHome ?? home, '.gemini', 'settings.json')],
      project: ({ project }) => [join(project, '.gemini', 'settings.json')],
    },
    toEntry: createClientEntry(variable => `\${${variable}}`, { urlKey: 'httpUrl' }),
    next: 'Restart Gemini CLI; /mcp there shows the connection. It starts servers only in trusted folders; /permissions there lists them.',
  },
  {
    // Source: "MCP servers" of Qwen Code. Its settings have the form of Gemini CLI's.
    name: 'qwen',
    title: 'Qwen Code',
    files: {
      user: ({ home }) => [join(home, '.qwen', 'settings.json')],
      project: ({ project }) => [join(project, '.qwen', 'settings.json')],
    },
    toEntry: createClientEntry(variable => `\${${variable}}`, { urlKey: 'httpUrl' }),
    next: 'Restart Qwen Code; /mcp there shows the connection.',
  },
  {
    // Source: "Adding MCP servers for GitHub Copilot CLI"; the form is that of its own `copilot mcp add`
    // (1.0.102).
    name: 'copilot',
    title: 'GitHub Copilot CLI',
    files: { user: ({ home }) => [join(home, '.copilot', 'mcp-config.json')] },
    toEntry: createClientEntry(variable => `\${${variable}}`, {
      stdio: { tools: ['*'], type: 'local' },
      http: { tools: ['*'], type: 'http' },
    }),
    next: 'Restart GitHub Copilot CLI; /mcp show there shows the connection.',
  },
  {
    // Source: "Adding and configuring servers" of Cline: the file of its own program, else of its VS Code
    // extension. It substitutes no variables.
    name: 'cline',
    title: 'Cline',
    files: {
      user: folders =>
        [
          join(folders.home, '.cline', 'data', 'settings'),
          join(programFolder(folders), 'Code/User/globalStorage/saoudrizwan.claude-dev/settings'),
        ].map(dir => join(dir, 'cline_mcp_settings.json')),
    },
    toEntry(server) {
      // Seconds, for the start too: without it, its program (3.0.65) waits three seconds for a server.
      const timeout = 120
      if ('command' in server) return { value: { type: 'stdio', ...toStdio(server.command), timeout } }
      const { tokenVariable, url } = server
      if (tokenVariable === undefined) return { value: { type: 'streamableHttp', url, timeout } }
      return { value: { type: 'stdio', ...toBridge(server), timeout } }
    },
    tokenInEntry: true,
    next: 'In Cline open MCP Servers, Configure: it lists the server with a switch.',
  },
]

/** All clients. Default: JSON, with the servers under `mcpServers`. */
export const clients: readonly Client[] = clientRows.map(row => ({
  format: json,
  serversPath: () => ['mcpServers'],
  ...row,
}))

/**
 * Returns the folders of a Claude Desktop from the installer: as a packaged app it sees its own folders
 * instead of the usual one.
 */
function listWindowsAppFolders({ localAppData, platform }: UserFolders): string[] {
  if (platform !== 'win32') return []
  const named = (dir: string) =>
    (existsSync(dir) ? readdirSync(dir) : [])
      .filter(name => /^claude($|_)/i.test(name))
      .map(name => join(dir, name))
  return [
    ...named(join(localAppData, 'Claude-Data')),
    ...named(join(localAppData, 'Packages')).map(dir => join(dir, 'LocalCache', 'Roaming', 'Claude')),
  ]
}
