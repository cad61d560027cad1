-- What release 0.3.0 (commit 0b7417e34872ad4a4985745294ea0810f97747b8) creates in a new svc.db.
CREATE TABLE expiring (
        expires INTEGER NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (expires, pk, sk)
    ) WITHOUT ROWID;
CREATE TABLE items (
    tbl TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL,
    item BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (tbl, pk, sk)
) WITHOUT ROWID;
CREATE TABLE places (
    partition INTEGER NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (partition, sk)
) WITHOUT ROWID;
CREATE TABLE tallies (
        path TEXT NOT NULL, value TEXT NOT NULL, pk TEXT NOT NULL, block TEXT NOT NULL,
        n INTEGER NOT NULL, PRIMARY KEY (path, value, pk, block)
    ) WITHOUT ROWID;
CREATE TABLE unindexed (
        pk TEXT NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (pk, sk)
    ) WITHOUT ROWID;
CREATE TRIGGER audit_deleted AFTER DELETE ON items WHEN OLD.tbl = 'audit' BEGIN
        INSERT OR IGNORE INTO unindexed SELECT '', '' WHERE NOT EXISTS (
            SELECT 1 FROM unindexed WHERE pk = OLD.pk AND sk = OLD.sk);
        DELETE FROM unindexed WHERE pk = OLD.pk AND sk = OLD.sk;
        UPDATE tallies SET n = n - 1 WHERE path = '' AND value = '' AND pk = OLD.pk
            AND block = substr(OLD.sk, 1, 14);
    END;
CREATE TRIGGER audit_inserted AFTER INSERT ON items WHEN NEW.tbl = 'audit' BEGIN
        INSERT OR IGNORE INTO unindexed VALUES (NEW.pk, NEW.sk);
        INSERT INTO tallies VALUES ('', '', NEW.pk, substr(NEW.sk, 1, 14), 1)
            ON CONFLICT (path, value, pk, block) DO UPDATE SET n = n + 1;
    END;
CREATE TRIGGER audit_updated AFTER UPDATE ON items WHEN NEW.tbl = 'audit' BEGIN
        INSERT OR IGNORE INTO unindexed SELECT '', '' WHERE NOT EXISTS (
            SELECT 1 FROM unindexed WHERE pk = NEW.pk AND sk = NEW.sk);
    END;
PRAGMA user_version = 4;
