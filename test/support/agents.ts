/** Agent programs from npm, each installed into its own folder outside the project. */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { clients, type McpTarget } from '../../src/setup/clients.ts'
import { setUp } from '../../src/setup/setup.ts'
import { type Ended, ended, type RunOptions } from './ended.ts'

export interface Run {
  /** Home folder of this run: settings, sessions, caches. */
  readonly home: string
  /** Folder of the installed package. */
  readonly folder: string
  /** URL of the stand-in model. */
  readonly model: string
  /**
   * How the agent reaches svc: the command of an MCP server over stdio, or a running service and the
   * command of a bridge.
   */
  readonly server: McpTarget
}

export interface Program {
  /** Name in `svc setup`. */
  readonly name: string
  /** npm package with the tested version. */
  readonly spec: string
  /** Command of the package. */
  readonly bin: string
  /** True if it drops images for an unknown model, or passes them on as text. */
  readonly isBlind?: true
  /**
   * Writes the program's settings.
   *
   * @returns the arguments and environment with which it works on the prompt
   */
  call(run: Run): Call | Promise<Call>
}

interface Call {
  readonly args: readonly string[]
  readonly env?: Record<string, string>
}

const prompt = 'Read my messages.'
const [installWithinMs, startWithinMs] = [100_000, 60_000]
/** The slowest takes more than a minute if other tests run on two cores. */
const workWithinMs = 170_000

/** Environment without telemetry, updates, and variables of this machine except PATH. */
export const quiet = {
  DISABLE_TELEMETRY: '1',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_ERROR_REPORTING: '1',
  DO_NOT_TRACK: '1',
  // Requests to other hosts fail immediately.
  HTTP_PROXY: 'http://127.0.0.1:9',
  HTTPS_PROXY: 'http://127.0.0.1:9',
  NO_PROXY: '127.0.0.1,localhost',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  NO_UPDATE_NOTIFIER: '1',
  NO_COLOR: '1',
  CI: '1',
}

/**
 * Installs an npm package into its own folder beside other caches. Returns the folder, or why it cannot be
 * installed.
 *
 * @param bin a command of the package; it must start once
 * @param beside packages that it needs and does not pin
 */
export async function installed(
  spec: string,
  bin: string,
  beside: readonly string[] = [],
): Promise<{ folder: string } | { why: string }> {
  const folder = join(tmpdir(), 'svc-agents', spec.replace(/[^a-z0-9.-]+/gi, '_'))
  if (existsSync(folder)) return { folder }
  if (!Bun.which('npm')) return { why: 'there is no npm' }
  await mkdir(dirname(folder), { recursive: true })
  // Installed beside it and then renamed, so that an interrupted installation is not taken for a complete
  // one.
  const made = await mkdtemp(`${folder}-`)
  const { PATH = '', ...others } = process.env
  const env = Object.fromEntries(
    Object.entries(others).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  )
  try {
    const options = ['--prefix', made, '--prefer-offline', '--no-audit', '--no-fund', '--no-update-notifier']
    const npm = await ended(['npm', 'install', ...options, spec, ...beside], {
      cwd: made,
      env: { ...env, PATH },
      withinMs: installWithinMs,
    })
    if (npm.status !== 0) return { why: npm.stderr.trim().slice(-300) || 'npm took too long' }
    // npm succeeds even if the registry does not have an optional package, and many programs are in one. So
    // start it once.
    const start = await ended([join(made, 'node_modules', '.bin', bin), '--version'], {
      cwd: made,
      env: { ...quiet, PATH, HOME: made },
      withinMs: startWithinMs,
    })
    if (start.status !== 0) return { why: `${bin} does not start: ${start.stderr.trim().slice(-300)}` }
    // Another run may have installed it first.
    await rename(made, folder).catch(() => {})
    return existsSync(folder) ? { folder } : { why: `${folder} cannot be made` }
  } finally {
    await rm(made, { recursive: true, force: true })
  }
}

/** Runs the program on one prompt to its end. */
export async function prompted(
  { name, bin, call }: Program,
  run: Run,
  started?: RunOptions['started'],
): Promise<Ended> {
  const { home, folder, server } = run
  const { args, env } = await call(run)
  const client = clients.find(one => one.name === name)
  if (!client) throw new Error(`svc setup does not know ${name}`)
  const xdgConfig = join(home, '.config')
  const work = join(home, 'work')
  await mkdir(work, { recursive: true })
  await setUp({
    client,
    scope: 'user',
    name: 'svc',
    server,
    force: true,
    folders: {
      home,
      project: work,
      xdgConfig,
      platform: process.platform,
      appData: home,
      localAppData: home,
      path: [],
    },
  })
  return ended([join(folder, 'node_modules', '.bin', bin), ...args], {
    cwd: work,
    withinMs: workWithinMs,
    env: { ...environmentIn(home), ...env },
    ...(started && { started }),
  })
}

/** Returns the environment of a program that keeps everything in a home folder. */
export const environmentIn = (home: string): Record<string, string> => ({
  ...quiet,
  PATH: process.env.PATH ?? '',
  HOME: home,
  TMPDIR: home,
  XDG_CONFIG_HOME: join(home, '.config'),
  XDG_DATA_HOME: join(home, '.share'),
  XDG_CACHE_HOME: join(home, '.cache'),
  XDG_STATE_HOME: join(home, '.state'),
})

export const programs: readonly Program[] = [
  {
    name: 'claude-code',
    spec: '@anthropic-ai/claude-code@2.1.332',
    bin: 'claude',
    call: run => ({
      args: ['-p', prompt, '--allowedTools', 'mcp__svc'],
      env: { ANTHROPIC_BASE_URL: run.model, ANTHROPIC_API_KEY: 'sk-ant-stand-in' },
    }),
  },
  {
    name: 'codex',
    spec: '@openai/codex@0.169.0',
    bin: 'codex',
    async call(run) {
      const home = join(run.home, '.codex')
      await mkdir(home, { recursive: true })
      await writeFile(
        join(home, 'config.toml'),
        [
          'model = "stand-in"',
          'model_provider = "stand_in"',
          'check_for_update_on_startup = false',
          '[analytics]',
          'enabled = false',
          '[model_providers.stand_in]',
          'name = "stand-in"',
          `base_url = "${run.model}/v1"`,
          'wire_api = "responses"',
          '',
        ].join('\n'),
      )
      return {
        args: [
          'exec',
          '--skip-git-repo-check',
          '--dangerously-bypass-approvals-and-sandbox',
          '-c',
          'mcp_servers.svc.startup_timeout_sec=60',
          prompt,
        ],
      }
    },
  },
  {
    name: 'gemini',
    spec: '@google/gemini-cli@0.61.0',
    bin: 'gemini',
    async call(run) {
      await mkdir(join(run.home, '.gemini'), { recursive: true })
      await writeFile(
        join(run.home, '.gemini', 'settings.json'),
        JSON.stringify({
          security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
          general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
          privacy: { usageStatisticsEnabled: false },
          telemetry: { enabled: false },
        }),
      )
      return {
        args: ['-p', prompt, '--yolo', '-m', 'gemini-2.5-flash'],
        env: {
          GOOGLE_GEMINI_BASE_URL: run.model,
          GEMINI_API_KEY: 'stand-in',
          GEMINI_CLI_TRUST_WORKSPACE: 'true',
        },
      }
    },
  },
  {
    name: 'opencode',
    spec: 'opencode-ai@1.18.33',
    bin: 'opencode',
    async call(run) {
      const dir = join(run.home, '.config', 'opencode')
      await mkdir(dir, { recursive: true })
      await writeFile(
        join(dir, 'opencode.json'),
        JSON.stringify({
          $schema: 'https://opencode.ai/config.json',
          autoupdate: false,
          experimental: { mcp_timeout: 60_000 },
          share: 'disabled',
          model: 'stand-in/stand-in',
          provider: {
            'stand-in': {
              npm: '@ai-sdk/openai-compatible',
              options: { baseURL: `${run.model}/v1`, apiKey: 'stand-in' },
              models: {
                'stand-in': { attachment: true, modalities: { input: ['text', 'image'], output: ['text'] } },
              },
            },
          },
        }),
      )
      return {
        args: ['run', '--model', 'stand-in/stand-in', prompt],
        env: {
          OPENCODE_DISABLE_AUTOUPDATE: '1',
          OPENCODE_DISABLE_MODELS_FETCH: '1',
          OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
        },
      }
    },
  },
  {
    name: 'qwen',
    spec: '@qwen-code/qwen-code@0.24.4',
    bin: 'qwen',
    async call(run) {
      await mkdir(join(run.home, '.qwen'), { recursive: true })
      await writeFile(
        join(run.home, '.qwen', 'settings.json'),
        JSON.stringify({
          security: { auth: { selectedType: 'openai' } },
          general: { enableAutoUpdate: false },
          privacy: { usageStatisticsEnabled: false },
          telemetry: { enabled: false },
        }),
      )
      return {
        args: ['-p', prompt, '--yolo', '-m', 'gpt-4o'],
        env: { OPENAI_API_KEY: 'stand-in', OPENAI_BASE_URL: `${run.model}/v1`, OPENAI_MODEL: 'gpt-4o' },
      }
    },
  },
  {
    name: 'copilot',
    spec: '@github/copilot@1.0.102',
    bin: 'copilot',
    isBlind: true,
    call: run => ({
      args: ['-p', prompt, '--allow-all-tools', '--disable-builtin-mcps'],
      env: {
        COPILOT_PROVIDER_BASE_URL: `${run.model}/v1`,
        COPILOT_PROVIDER_API_KEY: 'stand-in',
        COPILOT_MODEL: 'gpt-4o',
        // With the default it forgets the beginning of a long conversation.
        COPILOT_PROVIDER_MAX_PROMPT_TOKENS: '1000000',
        COPILOT_OFFLINE: 'true',
        COPILOT_AUTO_UPDATE: 'false',
      },
    }),
  },
  {
    name: 'cline',
    spec: 'cline@3.0.65',
    bin: 'cline',
    isBlind: true,
    async call(run) {
      const cline = join(run.folder, 'node_modules', '.bin', 'cline')
      const auth = ['auth', '-p', 'openai', '-k', 'stand-in', '-m', 'gpt-4o', '-b', `${run.model}/v1`]
      await ended([cline, ...auth], {
        cwd: run.home,
        env: { ...quiet, PATH: process.env.PATH ?? '', HOME: run.home, TMPDIR: run.home },
        withinMs: startWithinMs,
      })
      return { args: ['--json', '--compaction', 'off', prompt] }
    },
  },
]
