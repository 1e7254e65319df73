/** Completion for shells: the script, and the hidden command that it asks at each Tab. */
import { Argument } from 'commander'
import { addEpilogue, type CommandLine, quiet, subcommand } from '../command.ts'

/** `svc completion`, and `svc complete` behind it. */
export function add({ program, needed }: CommandLine): void {
  const completion = subcommand(program, 'completion', 'print the completion script of your shell')
    .description('Prints a script that completes commands, options, sessions and users with the Tab key.')
    .addArgument(new Argument('<shell>', 'your shell').choices(['bash', 'zsh', 'fish']))
  addEpilogue(completion, [
    ['eval "$(svc completion bash)"', 'bash: add this line to ~/.bashrc'],
    ['eval "$(svc completion zsh)"', 'zsh: add this line to ~/.zshrc, after compinit'],
    ['svc completion fish > ~/.config/fish/completions/svc.fish', 'fish: once'],
  ]).action(async (shell: 'bash' | 'zsh' | 'fish') => {
    const { completionScript } = await import('../completion.ts')
    const { writeOut } = await import('../terminal.ts')
    await writeOut(completionScript[shell])
  })

  quiet(program.command('complete', { hidden: true }))
    .argument('[words...]')
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (words: string[]) => {
      const { completions } = await import('../completion.ts')
      const { writeOut } = await import('../terminal.ts')
      await writeOut((await completions(words, needed)).map(line => `${line}\n`).join(''))
    })
}
