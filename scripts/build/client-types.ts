/**
 * The declarations of `svc/client` as one file that needs no package: the types that svc derives from its schemas are
 * spelled out.
 */
import { join } from 'node:path'
import {
  API,
  ElementFlags,
  type Project,
  type Signature,
  SignatureKind,
  SymbolFlags,
  type Type,
  TypeFlags,
  type TypeReference,
  type Symbol as TypeSymbol,
} from 'typescript/unstable/async'

/** Returns the declarations for the exports of `src/client/index.ts`. @param root the folder of `src` */
export async function clientDeclarations(root: string): Promise<string> {
  const config = join(root, 'tsconfig.package.json')
  const api = new API({ cwd: root })
  try {
    const snapshot = await api.updateSnapshot({ openProjects: [config] })
    const project = snapshot.getProjects().find(({ configFileName }) => configFileName === config)
    if (!project) throw new Error(`${config} is no project`)
    return await new Declarations(project, join(root, 'src')).print()
  } finally {
    await api.close()
  }
}

class Declarations {
  readonly #project: Project
  readonly #src: string
  /** What has a name, by the id of its type. */
  readonly #named = new Map<number, { readonly name: string; readonly symbol: TypeSymbol }>()
  /** The text of each declaration by its name. */
  readonly #texts = new Map<string, Promise<string>>()
  readonly #exported = new Set<string>()

  constructor(project: Project, src: string) {
    this.#project = project
    this.#src = src
  }

  async print(): Promise<string> {
    const { checker, program } = this.#project
    const files = (await program.getSourceFileNames()).filter(file => this.#isNaming(file))
    const exported = (await Promise.all(files.map(file => this.#exportsOf(file)))).flat()
    const types = exported.filter(symbol => isType(symbol))
    const declared = await Promise.all(types.map(symbol => checker.getDeclaredTypeOfSymbol(symbol)))
    for (const [nth, { flags, id }] of declared.entries())
      if (flags & (TypeFlags.Object | TypeFlags.Union) && !this.#named.has(id))
        this.#named.set(id, { name: types[nth]!.name, symbol: types[nth]! })
    const texts: string[] = []
    for (const given of await this.#exportsOf(join(this.#src, 'client/index.ts'))) {
      const isAlias = (given.flags & SymbolFlags.Alias) !== 0
      const symbol = isAlias ? await checker.getAliasedSymbol(given) : given
      this.#exported.add(given.name)
      if (isType(symbol)) {
        const { id } = await checker.getDeclaredTypeOfSymbol(symbol)
        this.#named.set(id, { name: given.name, symbol })
        this.#nameOf(id)
      } else texts.push(await this.#value(given.name, symbol))
    }
    await this.#settle()
    const all = [...this.#texts].sort(([a], [b]) => (a < b ? -1 : 1))
    const lines = await Promise.all(
      all.map(async ([name, text]) =>
        this.#exported.has(name) ? (await text).replace(/^(?=type|interface|declare)/m, 'export ') : text,
      ),
    )
    return `${[...lines, ...texts].join('\n')}\n`
  }

  async #exportsOf(file: string): Promise<readonly TypeSymbol[]> {
    const { checker, program } = this.#project
    const source = await program.getSourceFile(file)
    const module = source && (await checker.getSymbolAtLocation(source))
    return module ? await checker.getExportsOfModule(module) : []
  }

  /** Returns the name of a type that has one, and sees to its declaration. */
  #nameOf(id: number): string | undefined {
    const found = this.#named.get(id)
    if (found && !this.#texts.has(found.name))
      this.#texts.set(found.name, this.#declaration(found.name, found.symbol))
    return found?.name
  }

  /** Waits until no declaration needs another one. */
  async #settle(): Promise<void> {
    for (let size = -1; size !== this.#texts.size; ) {
      size = this.#texts.size
      await Promise.all(this.#texts.values())
    }
  }

  async #declaration(name: string, symbol: TypeSymbol): Promise<string> {
    const { checker } = this.#project
    const type = await checker.getDeclaredTypeOfSymbol(symbol)
    const docs = await this.#docs(symbol)
    if (symbol.flags & SymbolFlags.Class) return docs + (await this.#class(name, symbol, type))
    const isInterface = (symbol.flags & SymbolFlags.Interface) !== 0
    const text = await this.#structure(type)
    return `${docs}${isInterface ? `interface ${name}` : `type ${name} =`} ${text}`
  }

  async #class(name: string, symbol: TypeSymbol, type: Type): Promise<string> {
    const { checker } = this.#project
    const statics = await checker.getTypeOfSymbol(symbol)
    const own = new Set((await symbol.getMembers()).keys())
    const isOwn = (member: TypeSymbol) => own.has(member.escapedName) && !member.name.includes('#')
    // The client has the members of its interface.
    const isClient = name === 'Svc'
    const members = isClient ? [] : (await checker.getPropertiesOfType(type)).filter(isOwn)
    const made = statics && (await checker.getSignaturesOfType(statics, SignatureKind.Construct))[0]
    const lines = [
      isClient || !made ? 'private constructor()' : `constructor${await this.#parameters(made)}`,
      ...(await this.#members(members)),
    ]
    for (const member of statics ? await checker.getPropertiesOfType(statics) : [])
      if (isClient && member.name === 'connect') {
        const { docs, text } = await this.#parts(member)
        lines.push(`${docs}static ${text}`)
      }
    const head = isClient ? 'declare class Svc' : `declare class ${name} extends Error`
    const merged = isClient ? `\nexport interface Svc extends ${await this.#reference('SvcApi')} {}` : ''
    return `${head} {\n  ${lines.join('\n').replaceAll('\n', '\n  ')}\n}${merged}`
  }

  async #reference(name: string): Promise<string> {
    for (const [id, one] of this.#named) if (one.name === name) this.#nameOf(id)
    return name
  }

  async #value(name: string, symbol: TypeSymbol): Promise<string> {
    const type = await this.#project.checker.getTypeOfSymbol(symbol)
    return `${await this.#docs(symbol)}export declare const ${name}: ${type ? await this.#text(type) : 'unknown'}`
  }

  /** Returns how a type is written where it is used. */
  async #text(type: Type): Promise<string> {
    return this.#nameOf(type.id) ?? (await this.#structure(type))
  }

  async #structure(type: Type): Promise<string> {
    const { checker } = this.#project
    if (type.isUnionType()) return this.#union((await type.getTypes()) ?? [])
    if (type.isIntersectionType()) {
      const parts = await Promise.all(((await type.getTypes()) ?? []).map(one => this.#text(one)))
      return parts.filter(part => part !== '{}').join(' & ')
    }
    if (type.isLiteralType()) return JSON.stringify(type.value)
    if (type.isIntrinsicType()) return type.intrinsicName
    if (await checker.isArrayType(type)) {
      const [element] = type.isTypeReference() ? await checker.getTypeArguments(type) : []
      const text = element ? await this.#text(element) : 'unknown'
      const isReadonly = (await type.getSymbol())?.name === 'ReadonlyArray'
      return `${isReadonly ? 'readonly ' : ''}${/[ (]/.test(text) && !text.startsWith('{') ? `(${text})` : text}[]`
    }
    if (await checker.isTupleType(type)) return this.#tuple(type as TypeReference)
    const symbol = await type.getSymbol()
    if (symbol && this.#isForeign(symbol)) return this.#foreign(type, symbol)
    const signatures = await checker.getSignaturesOfType(type, SignatureKind.Call)
    const members = await checker.getPropertiesOfType(type)
    if (signatures[0] && members.length === 0)
      return `${await this.#parameters(signatures[0])} => ${await this.#returned(signatures[0])}`
    const lines = await this.#members(members)
    for (const { keyType, valueType } of await checker.getIndexInfosOfType(type))
      lines.push(`[key: ${await this.#text(keyType)}]: ${await this.#text(valueType)}`)
    return lines.length === 0 ? '{}' : `{\n  ${lines.join('\n').replaceAll('\n', '\n  ')}\n}`
  }

  async #tuple(type: TypeReference): Promise<string> {
    const elements = await Promise.all(
      (await this.#project.checker.getTypeArguments(type)).map(one => this.#text(one)),
    )
    const target = await type.getTarget()
    const { elementFlags = [] } = target.isTupleType() ? target : {}
    const texts = elements.map((text, nth) => {
      const isOptional = ((elementFlags[nth] ?? 0) & ElementFlags.Optional) !== 0
      return isOptional ? `(${withoutUndefined(text)})?` : text
    })
    return `[${texts.join(', ')}]`
  }

  async #union(types: readonly Type[]): Promise<string> {
    const all = await Promise.all(types.map(type => this.#text(type)))
    const texts = all.map(text => (text.includes('=>') && !text.startsWith('{') ? `(${text})` : text))
    const isBoolean = texts.includes('true') && texts.includes('false')
    const kept = texts.filter(text => !isBoolean || (text !== 'true' && text !== 'false'))
    return [...kept, ...(isBoolean ? ['boolean'] : [])].join(' | ')
  }

  /** Whether it is of the language or the runtime. */
  #isForeign({ declarations, name }: TypeSymbol): boolean {
    return !name.startsWith('__') && !declarations.some(({ path }) => path.startsWith(this.#src))
  }

  async #foreign(type: Type, { name }: TypeSymbol): Promise<string> {
    const given = type.isTypeReference() ? await this.#project.checker.getTypeArguments(type) : []
    const texts = await Promise.all(given.map(one => this.#text(one)))
    return texts.length === 0 ? name : `${name}<${texts.join(', ')}>`
  }

  #members(members: readonly TypeSymbol[]): Promise<string[]> {
    return Promise.all(members.map(member => this.#member(member)))
  }

  /** Whether the types that a file exports keep their names. */
  #isNaming(file: string): boolean {
    return /^\/(client|model)\/|^\/(gateway\/health|operations\/export|platform\/log|receive\/inbox)\.ts$/.test(
      file.slice(this.#src.length),
    )
  }

  async #member(member: TypeSymbol): Promise<string> {
    const { docs, text } = await this.#parts(member)
    return docs + text
  }

  async #parts(member: TypeSymbol): Promise<{ docs: string; text: string }> {
    const { checker } = this.#project
    const isOptional = (member.flags & SymbolFlags.Optional) !== 0
    const docs = await this.#docs(member)
    const name = member.name.replace(/^__@(\w+)@.*/, '[Symbol.$1]')
    const key = `${/^[\w$]+$|^\[/.test(name) ? name : JSON.stringify(name)}${isOptional ? '?' : ''}`
    const type = await checker.getTypeOfSymbol(member)
    if (!type) return { docs, text: `${key}: unknown` }
    const [signature] = isOptional ? [] : await checker.getSignaturesOfType(type, SignatureKind.Call)
    if (signature && (await checker.getPropertiesOfType(type)).length === 0)
      return { docs, text: `${key}${await this.#parameters(signature)}: ${await this.#returned(signature)}` }
    const text = await this.#text(type)
    return { docs, text: `${key}: ${isOptional ? withoutUndefined(text) : text}` }
  }

  async #parameters(signature: Signature): Promise<string> {
    const { checker } = this.#project
    const parameters = await signature.getParameters()
    const types = await checker.getTypeOfSymbol(parameters)
    const texts = await Promise.all(
      parameters.map(async ({ name, valueDeclaration }, nth) => {
        const type = types[nth]
        const text = type ? await this.#text(type) : 'unknown'
        if (signature.hasRestParameter && nth === parameters.length - 1) return `...${name}: ${text}`
        const { initializer, questionToken } = Object((await valueDeclaration?.resolve(this.#project)) ?? {})
        const isOptional = initializer !== undefined || questionToken !== undefined
        return isOptional ? `${name}?: ${withoutUndefined(text)}` : `${name}: ${text}`
      }),
    )
    return `(${texts.join(', ')})`
  }

  async #returned(signature: Signature): Promise<string> {
    const { checker } = this.#project
    const predicate = await checker.getTypePredicateOfSignature(signature)
    const type = await checker.getReturnTypeOfSignature(signature)
    if (predicate?.type && 'parameterName' in predicate)
      return `${predicate.parameterName} is ${await this.#text(predicate.type)}`
    return type ? await this.#text(type) : 'unknown'
  }

  async #docs(symbol: TypeSymbol): Promise<string> {
    const { checker } = this.#project
    const words = (await symbol.getDocumentationComment(checker)).trim()
    const throws = (await symbol.getJsDocTags(checker)).filter(({ name }) => name === 'throws')
    const lines = [words, ...throws.map(({ text }) => `@throws ${text}`)]
      .filter(Boolean)
      .join('\n')
      .split('\n')
    if (lines.join('') === '') return ''
    return lines.length === 1
      ? `/** ${lines[0]} */\n`
      : `/**\n${lines.map(line => ` * ${line}`).join('\n')}\n */\n`
  }
}

const withoutUndefined = (text: string): string => text.replace(/ \| undefined$|^undefined \| /, '')

const isType = ({ flags }: TypeSymbol): boolean =>
  (flags & (SymbolFlags.Class | SymbolFlags.Interface | SymbolFlags.TypeAlias)) !== 0
