/**
 * What `knip` looks at: it finds files that nothing imports, and exports that nothing uses. It runs twice:
 *
 *   knip -c scripts/unused.ts                an export that no other file uses needs no `export`
 *   knip -c scripts/unused.ts --production   code that only tests reach is not needed
 *
 * Parts with `!` are looked at in both. A test may import what the rest of its file uses, too.
 */
import type { KnipConfig } from 'knip'

const config: KnipConfig = {
  include: ['files', 'exports', 'types', 'nsExports', 'nsTypes'],
  ignoreExportsUsedInFile: process.argv.includes('--production'),
  workspaces: {
    '.': {
      entry: [
        // The program and the library.
        'src/{main,index,client/index}.ts!',
        // What scripts/panel.ts builds.
        'admin/{main.tsx,language-data.ts,unloaded.ts}!',
        // Commands, and programs that other scripts start.
        'scripts/{build,bundle,client-routes,cluster,package,panel,panel-port,pictures,release,scalar,smoke,tests,unused}.ts!',
        'scripts/benchmarks/{main,bare-*,counted,load,upstream}.ts!',
        'scripts/smoke/library.ts!',
        // Tests, programs that they and ./scripts/fuzz and ./scripts/storm start, and files that their processes preload.
        'test/**/*.test.ts',
        'test/fuzz/fuzz.ts',
        'test/faults/{storm,chaos}.ts',
        'test/faults/support/{blocks,dies-when-settled,sandbox-program,windows}.ts',
        'test/client/loop.ts',
        'test/deno/*.ts',
        'test/platform/lock-worker.ts',
        'test/relay/program.ts',
        'test/sandbox/official-client.ts',
        'test/support/{acp-agent,calls,events-subscriber,leftovers,nonsense,progress,reading-client}.ts',
        'test/upgrade/make-fixture.ts',
      ],
      project: ['{src,admin,scripts}/**/*.{ts,tsx}!', 'test/**/*.ts'],
    },
  },
  ignoreWorkspaces: ['test/*-tools'],
}

export default config
