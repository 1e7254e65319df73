import { expect, test } from 'bun:test'
import { nodesTrouble } from '../../admin/cluster/trouble.ts'
import type { Nodes } from '../../src/model/nodes.ts'
import { listNodes } from '../../src/operations/service.ts'

const { nodes, replication } = listNodes.examples![0]!.output as Required<Nodes>
const [first, second] = nodes as [Nodes['nodes'][number], Nodes['nodes'][number]]
const title = (...all: Nodes['nodes']) => nodesTrouble({ nodes: all, replication })?.title

test('one node alone has no standby, nor have those beside it that only follow or whose lease is over', () => {
  expect(title(first, second)).toBeUndefined()
  expect(title(first)).toBe('nodes.alone')
  expect(title(first, { ...second, polls: false })).toBe('nodes.alone')
  expect(title(first, { ...second, lease_left_ms: 0 })).toBe('nodes.alone')
  expect(nodesTrouble({ nodes: [{ ...first, polls: false }, second], replication })?.name).toBe(second.name)
})

test('nobody receives if no node lives that polls', () => {
  expect(title()).toBe('nodes.none')
  expect(title({ ...first, lease_left_ms: -1 })).toBe('nodes.none')
  expect(title({ ...first, polls: false })).toBe('nodes.none')
})

test('a data directory has no nodes, and nothing is wrong with that', () => {
  expect(nodesTrouble({ nodes: [] })).toBeUndefined()
})
