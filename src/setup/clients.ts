/**
 * The MCP clients that svc knows: where each keeps its servers, and how it writes one down. A new client is a new entry
 * here. Sources: each client's own documentation of its MCP settings, by the name given with it.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { type Edit, type Format, type Step, valueAt } from './edit.ts'
import { json } from './json.ts'
import { toml } from './toml.ts'

/** For all of a user's work, or for one project. */
export type Scope = 'user' | 'project'

/** How svc is reached. */
export type Server =
  | { readonly command: readonly string[] }
  | {
      readonly url: string
      /** What leads there over standard input and output, with the token in SVC_TOKEN. */
      readonly bridge: readonly string[]
      /** The environment variable that holds the bearer token. */
      readonly tokenVariable?: string
    }

/** The same for a reader of its own, by name. */
export function readBy(server: Server, consumer: string | undefined): Server {
  if (consumer === undefined) return server
  const words = ['--consumer', consumer]
  return 'command' in server
    ? { command: [...server.command, ...words] }
    : { ...server, url: `${server.url}?consumer=${consumer}`, bridge: [...server.bridge, ...words] }
}

export interface Client {
  /** As one types it. */
  readonly name: string
  readonly title: string
  readonly format: Format
  /** Where its servers may stand: the first file that exists, else the first. Absent for a scope it does not have. */
  readonly files: Partial<Record<Scope, (folders: UserFolders) => string[]>>
  /** Under which names the servers stand; `settings` is what the file holds. */
  at(settings: unknown): readonly string[]
  /** How it writes a server down, and what else that needs. */
  entry(server: Server, name: string): { value: object; also?: readonly Edit[] }
  /** What is taken back with a server. */
  alsoTaken?(name: string): readonly Step[][]
  /** It fills in no variables: the user puts the token into the entry. */
  readonly tokenInEntry?: boolean
  /** What the user does next. */
  readonly next: string
  /** And after `--project`. */
  readonly nextOfProject?: string
}

/** Where a program keeps its own on this system. */
const programFolder = ({ platform, home, appData, xdgConfig }: UserFolders): string =>
  platform === 'darwin'
    ? join(home, 'Library', 'Application Support')
    : platform === 'win32'
      ? appData
      : xdgConfig

const stdio = ([command, ...args]: readonly string[]) => ({ command, args })
/** With a place for the token where one is needed. */
const bridged = ({ bridge, tokenVariable }: Extract<Server, { url: string }>) => ({
  ...stdio(bridge),
  ...(tokenVariable !== undefined && { env: { SVC_TOKEN: '' } }),
})
const bearer = (reference: string) => ({ headers: { Authorization: `Bearer ${reference}` } })

/** `command` and `args`, or a URL with headers: what most of them have in common. */
const usual =
  (
    reference: (variable: string) => string,
    own: { stdio?: object; http?: object; urlKey?: string } = {},
  ): Client['entry'] =>
  server => {
    if ('command' in server) return { value: { ...own.stdio, ...stdio(server.command) } }
    const { url, tokenVariable } = server
    const token = tokenVariable !== undefined && bearer(reference(tokenVariable))
    return { value: { ...own.http, [own.urlKey ?? 'url']: url, ...token } }
  }

/** The one that the phone's user is asked for, by VS Code. */
const inputId = (name: string) => `${name}-token`
const isInput = (name: string) => (element: unknown) => valueAt(element, ['id']) === inputId(name)

const rows: readonly (Omit<Client, 'format' | 'at'> & Partial<Client>)[] = [
  {
    // "Connect Claude Code to tools via MCP": scopes, and ${VAR} in headers.
    name: 'claude-code',
    title: 'Claude Code',
    files: {
      user: ({ home, claudeCode }) => [join(claudeCode ?? home, '.claude.json')],
      project: ({ project }) => [join(project, '.mcp.json')],
    },
    entry: usual(variable => `\${${variable}}`, { stdio: { type: 'stdio' }, http: { type: 'http' } }),
    next: 'Start Claude Code anew; /mcp there shows the connection.',
    nextOfProject:
      'Start Claude Code anew in this folder: it asks whether it may use the server, and until you say yes the server is pending there (/mcp).',
  },
  {
    // "Connect to local MCP servers" of the protocol's documentation. Servers with a URL are added in its settings only, and
    // called from the cloud of its maker, which reaches no address of this machine or network.
    name: 'claude-desktop',
    title: 'Claude Desktop',
    files: {
      user: folders =>
        [...windowsAppFolders(folders), join(programFolder(folders), 'Claude')].map(dir =>
          join(dir, 'claude_desktop_config.json'),
        ),
    },
    entry: server => ({ value: 'command' in server ? stdio(server.command) : bridged(server) }),
    tokenInEntry: true,
    next: 'Quit Claude Desktop wholly, not only its window, and start it again.',
  },
  {
    // "Model Context Protocol" of Cursor: ${env:NAME} in headers.
    name: 'cursor',
    title: 'Cursor',
    files: {
      user: ({ home }) => [join(home, '.cursor', 'mcp.json')],
      project: ({ project }) => [join(project, '.cursor', 'mcp.json')],
    },
    entry: usual(variable => `\${env:${variable}}`),
    next: 'Restart Cursor, and look under MCP in its settings that the server is on.',
  },
  {
    // "MCP configuration reference" of VS Code: servers, and inputs, which it asks for once and keeps itself.
    name: 'vscode',
    title: 'VS Code',
    files: {
      user: folders => [join(programFolder(folders), 'Code', 'User', 'mcp.json')],
      project: ({ project }) => [join(project, '.vscode', 'mcp.json')],
    },
    at: () => ['servers'],
    entry(server, name) {
      if ('command' in server) return { value: { type: 'stdio', ...stdio(server.command) } }
      const value = { type: 'http', url: server.url }
      if (server.tokenVariable === undefined) return { value }
      const description = `Token of svc, as in ${server.tokenVariable}`
      return {
        value: { ...value, ...bearer(`\${input:${inputId(name)}}`) },
        also: [
          {
            path: ['inputs', isInput(name)],
            value: { type: 'promptString', id: inputId(name), description, password: true },
          },
        ],
      }
    },
    alsoTaken: name => [['inputs', isInput(name)]],
    next: 'In VS Code run the command "MCP: List Servers", choose the server and start it.',
  },
  {
    // "Model Context Protocol" of Codex: tables of config.toml, also of a project that is trusted. Its first turn goes ahead
    // without a server that is not ready, after a second or less (0.169), unless that is `required`.
    name: 'codex',
    title: 'Codex',
    format: toml,
    files: {
      user: ({ home, codex }) => [join(codex ?? join(home, '.codex'), 'config.toml')],
      project: ({ project }) => [join(project, '.codex', 'config.toml')],
    },
    at: () => ['mcp_servers'],
    entry: server =>
      'command' in server
        ? { value: { ...stdio(server.command), required: true } }
        : {
            value: {
              url: server.url,
              required: true,
              ...(server.tokenVariable !== undefined && { bearer_token_env_var: server.tokenVariable }),
            },
          },
    next: 'Start Codex anew; /mcp there shows the connection. It waits for svc at its start, and says so when svc cannot be started or reached.',
  },
  {
    // "MCP servers" and "Config" of OpenCode. Version 1 has the servers under `mcp`, version 2 under `mcp.servers` and
    // reads the other too ("Migrate from V1"): so `mcp`, unless the file has gone over already.
    name: 'opencode',
    title: 'OpenCode',
    files: {
      user: ({ xdgConfig }) =>
        ['opencode.json', 'opencode.jsonc'].map(file => join(xdgConfig, 'opencode', file)),
      project: ({ project }) => ['opencode.json', 'opencode.jsonc'].map(file => join(project, file)),
    },
    at(settings) {
      const servers = valueAt(settings, ['mcp', 'servers'])
      const isMap = typeof servers === 'object' && servers !== null && !('type' in servers)
      return isMap ? ['mcp', 'servers'] : ['mcp']
    },
    entry(server) {
      if ('command' in server) return { value: { type: 'local', command: server.command } }
      const { url, tokenVariable } = server
      return {
        value: {
          type: 'remote',
          url,
          // Without it OpenCode would look for a login page first.
          oauth: false,
          ...(tokenVariable !== undefined && bearer(`{env:${tokenVariable}}`)),
        },
      }
    },
    next: 'Start OpenCode anew; opencode mcp list shows the connection.',
  },
  {
    // "MCP servers with the Gemini CLI": httpUrl, and $NAME in settings.
    name: 'gemini',
    title: 'Gemini CLI',
    files: {
      user: ({ home, geminiHome }) => [join(geminiHome ?? home, '.gemini', 'settings.json')],
      project: ({ project }) => [join(project, '.gemini', 'settings.json')],
    },
    entry: usual(variable => `\${${variable}}`, { urlKey: 'httpUrl' }),
    next: 'Start Gemini CLI anew; /mcp there shows the connection. In a folder that it does not trust it starts no server: /permissions there says which it trusts.',
  },
  {
    // "MCP servers" of Qwen Code, whose settings are those of Gemini CLI.
    name: 'qwen',
    title: 'Qwen Code',
    files: {
      user: ({ home }) => [join(home, '.qwen', 'settings.json')],
      project: ({ project }) => [join(project, '.qwen', 'settings.json')],
    },
    entry: usual(variable => `\${${variable}}`, { urlKey: 'httpUrl' }),
    next: 'Start Qwen Code anew; /mcp there shows the connection.',
  },
  {
    // "Adding MCP servers for GitHub Copilot CLI"; as its own `copilot mcp add` writes it (1.0.102).
    name: 'copilot',
    title: 'GitHub Copilot CLI',
    files: { user: ({ home }) => [join(home, '.copilot', 'mcp-config.json')] },
    entry: usual(variable => `\${${variable}}`, {
      stdio: { tools: ['*'], type: 'local' },
      http: { tools: ['*'], type: 'http' },
    }),
    next: 'Start GitHub Copilot CLI anew; /mcp show there shows the connection.',
  },
  {
    // "Adding and configuring servers" of Cline: of its own program, else of its extension of VS Code. It fills in no variables.
    name: 'cline',
    title: 'Cline',
    files: {
      user: folders =>
        [
          join(folders.home, '.cline', 'data', 'settings'),
          join(programFolder(folders), 'Code/User/globalStorage/saoudrizwan.claude-dev/settings'),
        ].map(dir => join(dir, 'cline_mcp_settings.json')),
    },
    entry(server) {
      if ('command' in server) return { value: { type: 'stdio', ...stdio(server.command) } }
      if (server.tokenVariable === undefined) return { value: { type: 'streamableHttp', url: server.url } }
      return { value: { type: 'stdio', ...bridged(server) } }
    },
    tokenInEntry: true,
    next: 'In Cline open MCP Servers, Configure: the server is listed there, with a switch.',
  },
]

/** Most keep their servers in JSON, under one name. */
export const clients: readonly Client[] = rows.map(row => ({
  ...{ format: json, at: () => ['mcpServers'] },
  ...row,
}))

/** Claude Desktop from its installer is a packaged app, which sees folders of its own instead of the usual one. */
function windowsAppFolders({ localAppData, platform }: UserFolders): string[] {
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
