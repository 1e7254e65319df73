/** What an operator deploys: the compose file, the Helm chart and the alerts agree with each other and with svc. */
import { describe, expect, test } from 'bun:test'
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule'
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor'
import { Deployment } from 'kubernetes-models/apps/v1/Deployment'
import { Ingress } from 'kubernetes-models/networking.k8s.io/v1/Ingress'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { Service } from 'kubernetes-models/v1/Service'
import { optionTable } from '../../src/config.ts'
import { folderOfTest } from '../support/folder.ts'
import { config, hardened } from '../support/image.ts'
import type { Json } from '../support/service.ts'

const root = join(import.meta.dir, '../..')
const folder = join(root, 'scripts/deploy')
const chart = join(folder, 'helm/svc')
/** A stop takes less (`stopGraceMs`). */
const stopSeconds = 5
const read = (path: string): Json => Bun.YAML.parse(readFileSync(path, 'utf8'))
const isSetting = (name: string) => optionTable.some(({ env }) => env === name)
const kinds: Record<string, new (data: Json) => { validate(): void }> = {
  Deployment,
  Ingress,
  PodDisruptionBudget,
  PrometheusRule,
  Service,
  ServiceMonitor,
}

const ownHelm = Bun.which('helm')
const isHelmPackage = process.platform === 'linux' && process.arch === 'x64' && Bun.which('python3') !== null

/** Unpacks Helm from the package that brings it, for Linux on x64. @returns its path */
function unpackHelm(): string {
  const zip = join(root, 'node_modules/@aws-cdk/asset-kubectl-v20/lib/layer.zip')
  const dir = folderOfTest()
  const unpack = 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("helm/helm", sys.argv[2])'
  const { exitCode, stderr } = Bun.spawnSync(['python3', '-c', unpack, zip, dir])
  if (exitCode !== 0) throw new Error(String(stderr))
  chmodSync(join(dir, 'helm/helm'), 0o755)
  return join(dir, 'helm/helm')
}

/** Renders the chart. @returns its objects by kind and name */
function render(helm: string, ...values: string[]): Map<string, Json> {
  const args = [
    'template',
    'node',
    chart,
    '--kube-version',
    '1.34.0',
    ...values.flatMap(one => ['--set', one]),
  ]
  const { exitCode, stderr, stdout } = Bun.spawnSync([helm, ...args], { env: { HOME: '/nonexistent' } })
  if (exitCode !== 0) throw new Error(String(stderr))
  const objects: Json[] = [Bun.YAML.parse(String(stdout))].flat().filter(Boolean)
  return new Map(objects.map(object => [`${object.kind} ${object.metadata.name}`, object]))
}

const canRender = ownHelm !== null || isHelmPackage
test.skipIf(!canRender)('the chart makes objects that Kubernetes knows, and runs the image as it is', () => {
  const helm = ownHelm ?? unpackHelm()
  const usual = render(helm, 'image.tag=1.2.3')
  const tag = `1.2.3@sha256:${'a'.repeat(64)}`
  const all = render(
    helm,
    `image.tag=${tag}`,
    'ingress.enabled=true',
    'ingress.panelHost=panel.example.org',
    'ingress.tlsSecret=certificate',
    'metrics.serviceMonitor=true',
    'metrics.prometheusRule=true',
    'metrics.labels.release=prometheus',
    'publicUrl=https://svc.example.org',
    'env.SVC_PACE=off',
    // What the chart sets itself.
    'env.SVC_LOG_FORMAT=text',
    'env.SVC_PUBLIC_URL=https://other.example.org',
    'extraVolumes[0].name=ca',
    'extraVolumes[0].configMap.name=database-ca',
    'extraVolumeMounts[0].name=ca',
    'extraVolumeMounts[0].mountPath=/ca',
    'trustProxy={10.244.0.0/16,fd00::/8}',
    'nodes=5',
    'secret.newSecretKey=next',
  )
  expect(() => render(helm)).toThrow('image.tag')
  // The schema of the values refuses what would have no effect, and what the chart cannot use.
  for (const [value, named] of [
    ['nodse=5', 'nodse'],
    ['nodes=0', 'nodes'],
    ['nodes=many', 'nodes'],
    ['image.tga=1', 'tga'],
    ['ingress.enabled=maybe', 'enabled'],
    ['publicUrl=svc.example.org', 'publicUrl'],
    ['env.svc-pace=off', 'svc-pace'],
    ['env.SVC_PACE.rate=1', 'SVC_PACE'],
    ['trustProxy=10.244.0.0/16', 'trustProxy'],
  ] as const)
    expect(() => render(helm, 'image.tag=1.2.3', value)).toThrow(named)
  expect([...usual.keys()].sort()).toEqual([
    'Deployment node',
    'PodDisruptionBudget node',
    'Service node',
    'Service node-metrics',
  ])
  expect(new Set([...all.values()].map(({ kind }) => kind))).toEqual(new Set(Object.keys(kinds)))
  for (const object of [...usual.values(), ...all.values()]) new kinds[object.kind]!(object).validate()

  const { spec } = all.get('Deployment node')!
  const pod = spec.template.spec
  const [container] = pod.containers
  expect([spec.replicas, pod.enableServiceLinks, container.image]).toEqual([5, false, `svc:${tag}`])
  expect(spec.template.metadata.labels['app.kubernetes.io/version']).toBe('1.2.3')
  expect(pod.securityContext).toMatchObject({ runAsUser: config.user, fsGroup: config.user })
  expect(container.securityContext.readOnlyRootFilesystem).toBe(true)
  const env = Object.fromEntries(container.env.map(({ name, value }: Json) => [name, value]))
  expect(Object.keys(env).filter(name => !isSetting(name))).toEqual([])
  expect(container.env).toHaveLength(Object.keys(env).length)
  expect([env.SVC_LOG_FORMAT, env.SVC_PUBLIC_URL]).toEqual(['text', 'https://other.example.org'])
  expect(pod.volumes.map(({ name }: Json) => name)).toEqual(
    container.volumeMounts.map(({ name }: Json) => name),
  )
  expect(container.readinessProbe.httpGet.path).toBe('/readyz')
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(Number(env.SVC_DRAIN) + stopSeconds)
  expect(env.SVC_ALLOW_HOST).toBe('svc.example.org,panel.example.org')
  expect(env.SVC_TRUST_PROXY).toBe('10.244.0.0/16,fd00::/8')
  // Each file that a variable names is one of the secret.
  const { secret } = pod.volumes.find(({ name }: Json) => name === 'secrets')
  const files = secret.items.map(({ path }: Json) => `/secrets/${path}`)
  expect(
    Object.keys(env)
      .flatMap(name => (name.endsWith('_FILE') ? env[name] : []))
      .sort(),
  ).toEqual(files.sort())
  const ports = container.ports.map(({ containerPort }: Json) => String(containerPort))
  expect(ports).toEqual([...config.ports, env.SVC_METRICS_PORT])
  const rules = read(join(chart, 'prometheus-rules.yaml'))
  expect(all.get('PrometheusRule node')!.spec).toEqual(rules)
})

test('the schemas refuse what Kubernetes does not know', () => {
  const wrong: Json = { metadata: { name: 'node' }, spec: { ports: [{ prot: 80 }] } }
  expect(() => new Service(wrong).validate()).toThrow()
})

test('the compose file runs nodes of the image on one database, with secrets from files', () => {
  const path = join(folder, 'compose.cluster.yaml')
  const { secrets, services } = read(path)
  for (const { environment, stop_grace_period } of [
    services.svc,
    read(join(root, 'compose.yaml')).services.svc,
  ])
    expect(Number.parseInt(stop_grace_period, 10)).toBeGreaterThan(environment.SVC_DRAIN + stopSeconds)
  expect(Object.keys(services)).toEqual(['db', 'svc', 'proxy'])
  const { svc } = services
  expect(Object.keys(svc.environment).filter(name => name !== 'TZ' && !isSetting(name))).toEqual([])
  expect(svc.deploy.replicas).toBe(3)
  for (const service of Object.values<Json>(services))
    expect(service).toMatchObject({ ...hardened, mem_limit: expect.stringMatching(/^\d+[gm]$/) })
  for (const { secrets: used = [] } of Object.values<Json>(services))
    for (const name of used) expect(secrets[name].file).toBe(`secrets/${name}`)
  const files = Object.entries<string>(svc.environment).filter(([name]) => name.endsWith('_FILE'))
  expect(files.map(([, file]) => file.replace('/run/secrets/', ''))).toEqual(svc.secrets)
  const { ipv4_address: trusted } = services.proxy.networks.default
  expect(svc.environment.SVC_TRUST_PROXY).toBe(`\${SVC_TRUST_PROXY:-${trusted}}`)
  const proxy = readFileSync(join(folder, 'haproxy.cfg'), 'utf8')
  for (const port of config.ports) {
    expect(services.proxy.ports).toContain(`127.0.0.1:${port}:${port}`)
    expect(proxy).toContain(`bind :${port}`)
    expect(proxy).toContain(`svc:${port}`)
  }
  if (Bun.spawnSync(['sh', '-c', 'docker compose version']).exitCode !== 0) return
  const { exitCode, stderr } = Bun.spawnSync(['docker', 'compose', '-f', path, 'config', '-q'])
  expect([exitCode, String(stderr)]).toEqual([0, ''])
})

describe('the alerts', () => {
  const rules: Json[] = read(join(folder, 'prometheus-rules.yaml')).groups.flatMap(
    (group: Json) => group.rules,
  )

  test('are complete, and each metric that they name exists', () => {
    const sources = ['src/gateway/metrics.ts', 'src/platform/metrics.ts']
    const known = sources.map(path => readFileSync(join(root, path), 'utf8')).join('')
    expect(rules.length).toBeGreaterThan(10)
    for (const { alert, annotations, expr, labels } of rules) {
      expect([alert, ['warning', 'critical'].includes(labels.severity)]).toEqual([alert, true])
      expect(annotations.summary.length).toBeGreaterThan(10)
      // Its paragraph says what it means and what to do.
      const [file, anchor] = annotations.runbook_url.split('#')
      const page = readFileSync(join(root, file), 'utf8')
      expect([alert, anchor, page.split(`\n### ${alert}\n\n`).length]).toEqual([
        alert,
        alert.toLowerCase(),
        2,
      ])
      for (const [name] of expr.matchAll(/\bsvc_\w+/g))
        expect(known).toContain(`'${name.replace(/_(count|sum|bucket)$/, '')}'`)
    }
  })

  test.skipIf(!Bun.which('promtool'))('are what Prometheus reads', () => {
    const { exitCode, stderr } = Bun.spawnSync([
      'promtool',
      'check',
      'rules',
      join(chart, 'prometheus-rules.yaml'),
    ])
    expect([exitCode, String(stderr)]).toEqual([0, ''])
  })
})
