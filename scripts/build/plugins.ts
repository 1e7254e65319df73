/** Plugins of the builds, and a check that each of them did its work. */

/** A plugin as the builds here write it. */
export type Setup = (build: Pick<Bun.PluginBuilder, 'onLoad' | 'onResolve'>) => void

/**
 * Runs a build with these plugins. A package that moves its files makes a plugin match nothing, without a word
 * from the bundler: the build would go on without what the plugin does.
 *
 * @throws Error that names a plugin of which a part was not used
 */
export async function buildWith(
  plugins: Readonly<Record<string, Setup>>,
  config: Bun.BuildConfig,
): Promise<Bun.BuildOutput> {
  const unused = new Set<string>()
  const wrapped = Object.entries(plugins).map(([name, setup]): Bun.BunPlugin => {
    const track = <T extends object, R>({ filter }: { filter: RegExp }, work: (found: T) => R) => {
      const part = `${name} ${filter}`
      unused.add(part)
      return (found: T) => {
        unused.delete(part)
        return work(found)
      }
    }
    return {
      name,
      setup: build =>
        setup({
          onLoad: (on, load) => build.onLoad(on, track(on, load)),
          onResolve: (on, resolve) => build.onResolve(on, track(on, resolve)),
        }),
    }
  })
  const result = await Bun.build({ ...config, plugins: wrapped })
  for (const message of result.logs) console.error(message)
  if (unused.size > 0)
    throw new Error(`the build does not use ${[...unused].join(', ')}: a package has changed its files`)
  return result
}

/**
 * `debug` loads `supports-color` where it finds it. Only a tool of the tests has it here, so it must not become a part of
 * the program.
 */
export const withoutColors: Setup = build => {
  const name = 'supports-color'
  build.onResolve({ filter: new RegExp(`^${name}$`) }, () => ({ path: name, namespace: 'absent' }))
  build.onLoad({ filter: /^/, namespace: 'absent' }, () => ({ contents: 'export {}', loader: 'js' }))
}
