/** What a process keeps for itself below the data directory, or for others on this machine: no engine is asked for it. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'

export const localFiles = (basePath: string) => ({
  /** As `dataFiles` describes them. */
  address: join(basePath, dataFiles.address),
  mcpKey: join(basePath, dataFiles.mcpKey),
  apiToken: join(basePath, dataFiles.apiToken),
  sandbox: join(basePath, dataFiles.sandbox),
})
