// ---- where judgements are kept: IndexedDB, one record an item and session, in a database of the
// pool's own. Transactions are strict: they end when the disk has them, so that a killed browser
// loses none that ended. localStorage is written seconds later, and would lose these. A session is
// the name that was given at the start: two people at one browser keep apart.
class BrowserStore {
  static async open(pool) {
    const database = await new Promise((done, failed) => {
      const request = indexedDB.open(`rag-metrics review ${pool}`, 1);
      request.onupgradeneeded = () =>
        request.result.createObjectStore("judgements", { keyPath: ["session", "item"] });
      request.onsuccess = () => done(request.result);
      request.onerror = () => failed(request.error);
      request.onblocked = () => failed(new Error("another tab holds it"));
    });
    return new BrowserStore(database);
  }

  constructor(database) {
    this.database = database;
  }

  // what a session holds: item to record
  all(session) {
    const range = IDBKeyRange.bound([session], [session, []]);
    return this.run("readonly", (records, answer) => {
      const request = records.getAll(range);
      request.onsuccess = () =>
        answer(new Map(request.result.map((record) => [record.item, record])));
    });
  }

  // every session, the one that changed last first
  async sessions() {
    const records = await this.run("readonly", (stored, answer) => {
      const request = stored.getAll();
      request.onsuccess = () => answer(request.result);
    });
    records.sort((first, second) => second.judged_at.localeCompare(first.judged_at));
    return [...new Set(records.map((record) => record.session))];
  }

  // keeps a record, or deletes it where it is null; resolves when that is on the disk
  put(session, item, record) {
    return this.run("readwrite", (records) => {
      if (record) records.put({ ...record, session, item });
      else records.delete([session, item]);
    });
  }

  run(mode, work) {
    return new Promise((done, failed) => {
      let result;
      const transaction = this.database.transaction("judgements", mode, { durability: "strict" });
      transaction.oncomplete = () => done(result);
      transaction.onerror = () => failed(transaction.error);
      transaction.onabort = () => failed(transaction.error || new Error("the browser gave up"));
      work(transaction.objectStore("judgements"), (value) => { result = value; });
    });
  }
}
