/** Which manager of services a machine has. */

import { SvcError } from '../model/error.ts'
import { launchdService } from './launchd.ts'
import type { ServiceFolders, ServiceManager, ServiceName } from './plan.ts'
import { systemdService } from './systemd.ts'

/**
 * The manager of a platform, for one service.
 *
 * @param command how svc would be started there, for the platform that has none
 * @throws SvcError where there is none that svc knows
 */
export function managerOf(
  platform: string,
  service: ServiceName,
  folders: ServiceFolders,
  command: readonly string[],
): ServiceManager {
  if (platform === 'linux') return systemdService(service, folders)
  if (platform === 'darwin') return launchdService(service, folders)
  if (platform !== 'win32')
    throw new SvcError(
      'internal',
      `svc installs services of systemd and launchd, and knows none of ${platform}`,
      {
        hint: 'Let its init system start svc openapi, as a user of its own.',
      },
    )
  const line = command.map(word => (/[\s"]/.test(word) ? `\\"${word}\\"` : word)).join(' ')
  throw new SvcError('internal', 'svc installs services of systemd and launchd, and Windows has neither', {
    hint: `Let the Task Scheduler start it when you log in: schtasks /Create /TN svc /SC ONLOGON /TR "${line} openapi"`,
  })
}
