use super::*;
use std::os::unix::fs::symlink;
use std::time::Duration;
use tempfile::TempDir;

const FILE: &str = "model.so";

fn cache() -> (TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    (dir, folder)
}

fn make(folder: &Folder, name: &str, content: &[u8]) -> Entry {
    match folder.claim(name, &[FILE]).unwrap() {
        Ok(entry) => entry,
        Err(part) => {
            std::fs::write(part.dir.join(FILE), content).unwrap();
            std::fs::write(part.dir.join("left over"), content).unwrap();
            folder.complete(&part, &[FILE.to_owned()]).unwrap();
            folder.made(part).unwrap()
        }
    }
}

fn used_before(folder: &Folder, name: &str, minutes: u64) {
    drop(make(folder, name, &[0; 1000]));
    let record = File::open(folder.path.join(name).join(RECORD)).unwrap();
    record.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
}

fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(&folder.path).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name != TAG && !name.ends_with(".lock"));
    names.sort();
    names
}

#[test]
fn an_entry_has_its_files_and_is_found_again() {
    let (_dir, folder) = cache();
    let entry = make(&folder, "a-1", b"made");
    assert_eq!(std::fs::read(entry.dir.join(FILE)).unwrap(), b"made");
    assert_eq!(std::fs::read(entry.opened.join(FILE)).unwrap(), b"made");
    assert_eq!((names(&folder), entry.files.clone()), (vec!["a-1".to_owned()], vec![FILE.to_owned()]));
    assert_eq!(std::fs::read_dir(&entry.dir).unwrap().count(), 2);
    assert_eq!(folder.find("a-1").unwrap().files, [FILE]);
    assert!(folder.find("a-2").is_none());
}

#[test]
fn what_was_not_used_for_longest_is_removed_and_what_is_in_use_stays() {
    let (_dir, folder) = cache();
    for (minutes, name) in [(3, "a"), (2, "b"), (1, "c")] {
        used_before(&folder, name, minutes);
    }
    drop(folder.find("a").unwrap());
    let three = names(&folder);
    folder.trim(10_000, |_| false).unwrap();
    assert_eq!(names(&folder), three);
    folder.trim(2500, |_| false).unwrap();
    assert_eq!(names(&folder), ["a", "c"]);
    let used = folder.find("c").unwrap();
    drop(folder.find("a").unwrap());
    folder.trim(0, |_| false).unwrap();
    assert_eq!(names(&folder), ["a", "c"]);
    drop(used);
    folder.trim(0, |name| name == "c").unwrap();
    assert_eq!(names(&folder), ["a", "c"]);
    drop(folder.find("a").unwrap());
    folder.trim(0, |_| false).unwrap();
    assert_eq!(names(&folder), ["a"]);
}

#[test]
fn what_is_not_ours_stays() {
    let (dir, folder) = cache();
    let large = |path: &Path| {
        std::fs::create_dir_all(path).unwrap();
        File::create(path.join("photos")).unwrap().set_len(3 << 30).unwrap();
    };
    let other = tempfile::tempdir().unwrap();
    large(other.path());
    large(&dir.path().join("photos"));
    std::fs::write(dir.path().join("photos.lock"), "text").unwrap();
    for name in ["photos", "old-1", "other-1"] {
        large(&folder.path.join(name));
    }
    // Of another entry, and not of ndp.
    std::fs::write(folder.path.join("old-1").join(RECORD), head("old-2")).unwrap();
    std::fs::write(folder.path.join("other-1").join(RECORD), "name other-1\n").unwrap();
    symlink(other.path(), folder.path.join("link-1")).unwrap();
    std::fs::write(other.path().join(RECORD), head("link-1")).unwrap();
    std::fs::write(folder.path.join("photos.lock"), "text").unwrap();
    let before = names(&folder);
    used_before(&folder, "a", 2);
    used_before(&folder, "b", 1);
    folder.trim(0, |_| false).unwrap();
    let mut after = names(&folder);
    after.retain(|name| name != "b");
    assert_eq!(after, before);
    for lock in [dir.path().join("photos.lock"), folder.path.join("photos.lock")] {
        assert_eq!(std::fs::read_to_string(lock).unwrap(), "text");
    }
    assert!(dir.path().join("photos/photos").is_file() && other.path().join("photos").is_file());
    // Nor is it removed to make room for an entry of that name.
    for name in ["photos", "old-1", "link-1"] {
        let error = folder.claim(name, &[FILE]).unwrap_err().join("\n");
        assert!(error.contains("is in the way and is not touched"), "{error}");
    }
    assert!(folder.path.join("photos/photos").is_file() && other.path().join("photos").is_file());
}

#[test]
fn what_was_begun_and_left_is_removed() {
    let (_dir, folder) = cache();
    drop(folder.claim("a", &[FILE]).unwrap().unwrap_err());
    let busy = folder.claim("b", &[FILE]).unwrap().unwrap_err();
    drop(make(&folder, "c", b"made"));
    folder.trim(1 << 20, |_| false).unwrap();
    assert_eq!(names(&folder), ["b.part", "c"]);
    drop(busy);
    std::fs::write(folder.path.join("b.part").join("design.v"), "").unwrap();
    drop(make(&folder, "b", b"made"));
    assert_eq!(names(&folder), ["b", "c"]);
}

#[test]
fn who_comes_second_waits_and_does_not_build_again() {
    let (_dir, folder) = cache();
    let times = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let entry = folder.claim("a", &[FILE]).unwrap().unwrap_or_else(|part| {
                    std::thread::sleep(Duration::from_millis(50));
                    times.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    std::fs::write(part.dir.join(FILE), b"made").unwrap();
                    folder.complete(&part, &[FILE.to_owned()]).unwrap();
                    folder.made(part).unwrap()
                });
                assert_eq!(std::fs::read(entry.dir.join(FILE)).unwrap(), b"made");
            });
        }
    });
    assert_eq!(times.into_inner(), 1);
}

#[test]
fn an_entry_that_was_changed_is_made_again() {
    let mode = |path: PathBuf, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    type Change<'a> = (&'a str, &'a dyn Fn(&Path));
    let changes: [Change<'_>; 9] = [
        ("truncated", &|dir| File::options().write(true).open(dir.join(FILE)).unwrap().set_len(2).unwrap()),
        ("exchanged", &|dir| std::fs::write(dir.join(FILE), b"mode").unwrap()),
        ("removed", &|dir| std::fs::remove_file(dir.join(FILE)).unwrap()),
        ("written by others", &|dir| mode(dir.join(FILE), 0o646)),
        ("written by the group", &|dir| mode(dir.to_owned(), 0o775)),
        ("linked", &|dir| {
            std::fs::rename(dir.join(FILE), dir.join("real")).unwrap();
            symlink("real", dir.join(FILE)).unwrap();
        }),
        ("without a record", &|dir| std::fs::remove_file(dir.join(RECORD)).unwrap()),
        ("of another entry", &|dir| std::fs::write(dir.join(RECORD), head("b")).unwrap()),
        ("without files", &|dir| std::fs::write(dir.join(RECORD), head("a")).unwrap()),
    ];
    for (what, change) in changes {
        let (_dir, folder) = cache();
        change(&make(&folder, "a", b"made").dir);
        assert!(folder.find("a").is_none(), "{what}");
        assert_eq!(std::fs::read(make(&folder, "a", b"new").dir.join(FILE)).unwrap(), b"new", "{what}");
        assert!(folder.find("a").is_some(), "{what}");
    }
}

#[test]
fn locks_follow_no_link_and_change_no_file() {
    let (dir, folder) = cache();
    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    symlink(&file, folder.path.join("a.lock")).unwrap();
    std::fs::hard_link(&file, folder.path.join("b.lock")).unwrap();
    let error = folder.claim("a", &[FILE]).unwrap_err().join("\n");
    assert!(error.contains("there is no 'a' in the cache") && error.contains("NDP_CACHE"), "{error}");
    drop(make(&folder, "b", b"made"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
}

#[test]
fn a_folder_that_is_not_ours_or_that_others_may_write_is_refused() {
    let refused = |dir: &TempDir, why: &str| {
        let error = Folder::open(dir.path()).unwrap_err().join("\n");
        assert!(error.contains("cannot use the cache") && error.contains(why), "{error}");
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    std::fs::create_dir(&path).unwrap();
    refused(&dir, "it has no CACHEDIR.TAG");
    std::fs::write(path.join(TAG), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
    refused(&dir, "its CACHEDIR.TAG is not one of ndp");
    let (dir, folder) = cache();
    std::fs::set_permissions(&folder.path, Permissions::from_mode(0o777)).unwrap();
    refused(&dir, "others may write it (mode 777");
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(&folder.path, elsewhere.path().join(NAME)).unwrap();
    refused(&elsewhere, "");
}

#[test]
fn what_others_own_is_not_taken() {
    if !geteuid().is_root() {
        eprintln!("only root can give files away");
        return;
    }
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
    for name in [FILE, RECORD, ""] {
        let (_dir, folder) = cache();
        give(&make(&folder, "a", b"made").dir.join(name));
        assert!(folder.find("a").is_none(), "{name}");
    }
    let (dir, folder) = cache();
    give(&folder.path);
    let error = Folder::open(dir.path()).unwrap_err().join("\n");
    assert!(error.contains("it belongs to user 65534, neither to you (user 0) nor to root"), "{error}");
}
