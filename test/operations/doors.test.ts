/** Every operation at every door that it names: its examples and its errors, the same at each. */
import { afterAll, describe, expect, spyOn, test } from 'bun:test'
import { SvcError } from '../../src/model/error.ts'
import type { Operation } from '../../src/operations/operation.ts'
import { operations } from '../../src/operations/operations.ts'
import { folderOfFile, forFile } from '../support/folder.ts'
import { commandDoor, type Input, libraryDoor, mcpDoor, panelDoor, restDoor } from './doors.ts'

/** What an operation does in place of its own work, by its name. A door may have a copy: so this is set before it has. */
const ends = new Map<string, (input: Input) => unknown>()
const spies = operations.map(one => {
  const { run } = one
  return spyOn(one, 'run').mockImplementation(async (gateway, input, call) => {
    const end = ends.get(one.name)
    return end ? end(input) : run(gateway, input, call)
  })
})
afterAll(() => {
  for (const spy of spies) spy.mockRestore()
})

const folder = folderOfFile()
const doors = {
  rest: forFile(await restDoor()),
  command: forFile(await commandDoor(folder)),
  library: forFile(await libraryDoor(folder)),
  mcp: forFile(await mcpDoor()),
  panel: forFile(await panelDoor()),
}

/** The operation ends like this from now on, at whichever door it is called. @returns the inputs that it was run with */
function runs({ name }: Operation, end: () => unknown) {
  const arrived: Input[] = []
  ends.set(name, input => {
    arrived.push(input)
    return end()
  })
  return { arrived, [Symbol.dispose]: () => ends.delete(name) }
}

/** An input to fail with: an example, or what the schema shows of the fields that must be there. */
function anyInput({ examples, inputSchema: { properties = {}, required = [] } }: Operation): Input {
  const [example] = examples
  if (example) return example.input ?? {}
  return Object.fromEntries(required.map(key => [key, properties[key]?.examples?.[0]]))
}

describe.each(Object.entries(doors))('%s', (_door, door) => {
  const offered = operations.filter(door.offers)
  const meant = door.meant ?? ((_one, input) => input)
  const named = offered.map(one => [one.name, one] as const)
  const alike = named.filter(([name]) => !door.apart?.includes(name))

  test('is there', () => {
    expect(offered.length).toBeGreaterThan(8)
  })

  test.each(
    alike.flatMap(([name, one]) =>
      one.examples.map(example => [name, example.summary, one, example] as const),
    ),
  )('%s, "%s": the input arrives, and the output comes back', async (_name, _summary, one, example) => {
    const { input = {}, output } = example
    using run = runs(one, () => output)
    expect(await door.call(one, input)).toEqual({ output })
    expect(run.arrived).toEqual([one.parse(meant(one, input))])
  })

  test.each(named)('%s: each of its errors reaches the caller', async (_name, one) => {
    for (const code of one.errors) {
      const told = new SvcError(code, `Told as ${code}`)
      using run = runs(one, () => {
        throw told
      })
      expect(await door.call(one, anyInput(one))).toEqual({ code, detail: told.message })
      expect(run.arrived).toHaveLength(1)
    }
  })

  const checked = named.filter(([, one]) => !door.ignores?.(one))
  test.each(checked)('%s: an argument that it does not know is refused by its name', async (_name, one) => {
    using run = runs(one, () => undefined)
    const outcome = await door.call(one, { ...anyInput(one), nonsense_key: 1 })
    expect(outcome).toMatchObject({ code: 'invalid_arguments' })
    expect(JSON.stringify(outcome)).toMatch(/nonsense.key/)
    expect(run.arrived).toEqual([])
  })
})
