/**
 * Files in the data directory that a process keeps for itself or for others on this machine; not part of the
 * store.
 */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'

export const localFilesOf = (basePath: string) => ({
  /** Described in `dataFiles`, like the others. */
  address: join(basePath, dataFiles.address),
  mcpKey: join(basePath, dataFiles.mcpKey),
  apiToken: join(basePath, dataFiles.apiToken),
  sandbox: join(basePath, dataFiles.sandbox),
  store: join(basePath, dataFiles.store),
  agents: join(basePath, dataFiles.agents),
})
