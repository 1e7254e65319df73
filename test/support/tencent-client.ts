/**
 * Tencent's own client modules (npm, unmodified). They keep state in module scope, and need a stand-in for their host program and a
 * patched fetch, as their login host is fixed: so they run in a process of their own.
 */

const loginHost = 'https://ilinkai.weixin.qq.com'
const unused = () => {
  throw new Error('not part of this test')
}

// biome-ignore lint/suspicious/noExplicitAny: modules without types
export type Module = any

/** @param url where they log in @param dir for their files @returns a function that loads a module of theirs */
export function tencentClient(url: string, dir: string): (path: string) => Promise<Module> {
  Bun.plugin({
    name: 'host program',
    setup(build) {
      const stub = (name: string, exports: Record<string, unknown>) =>
        build.module(`openclaw/plugin-sdk/${name}`, () => ({ exports, loader: 'object' }))
      stub('account-id', { normalizeAccountId: (id: string) => id.replace(/[@.]/g, '-') })
      stub('channel-message', { createTypingCallbacks: unused })
      stub('command-auth', {
        resolveSenderCommandAuthorizationWithRuntime: unused,
        resolveDirectDmAuthorizationOutcome: unused,
      })
      stub('hook-runtime', {
        fireAndForgetHook: unused,
        buildCanonicalSentMessageHookContext: unused,
        toPluginMessageContext: unused,
        toPluginMessageSentEvent: unused,
      })
      stub('infra-runtime', {
        resolvePreferredOpenClawTmpDir: () => dir,
        withFileLock: (_path: string, _options: unknown, work: () => unknown) => work(),
      })
      stub('plugin-runtime', { getGlobalHookRunner: () => undefined })
    },
  })

  const plainFetch = globalThis.fetch
  globalThis.fetch = Object.assign(
    (input: Parameters<typeof fetch>[0], init?: RequestInit) =>
      plainFetch(
        typeof input === 'string' || input instanceof URL ? String(input).replace(loginHost, url) : input,
        init,
      ),
    { preconnect: plainFetch.preconnect },
  )
  return path => import(`../../node_modules/@tencent-weixin/openclaw-weixin/dist/src/${path}.js`)
}
