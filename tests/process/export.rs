//! `onescribe export` as an operator meets it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::{LINES, number_before, onescribe, run, text, write_lines};

/// A store with many lines, and the files of two of them.
fn store(folder: &Path) {
    write_lines(folder);
    let mut lines = fs::read_to_string(folder.join("lines.jsonl")).unwrap();
    for name in ["kept", "lost"] {
        fs::write(folder.join(name), format!("bytes that are {name}")).unwrap();
        let line =
            "{\"room\":\"files\",\"at\":\"2026-11-29T12:00:00Z\",\"author\":\"u1\",\"files\":[{\"path\":\"NAME\"}]}\n";
        lines += &line.replace("NAME", name);
    }
    fs::write(folder.join("lines.jsonl"), lines).unwrap();
    let done = run(folder, &["import", "lines.jsonl"]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
}

/// The object that has these bytes.
fn object(folder: &Path, bytes: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.join("onescribe.db.files")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read(&path).unwrap() == bytes.as_bytes() {
                return path;
            }
        }
    }
    panic!("no object says {bytes}");
}

#[test]
fn a_lost_file_costs_an_exit_code_and_its_message_comes_in_when_it_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    store(folder);
    let lost = object(folder, "bytes that are lost");
    for damage in ["gone", "bytes that are LOST", "cut"] {
        match damage {
            "gone" => fs::remove_file(&lost).unwrap(),
            bytes => fs::write(&lost, bytes).unwrap(),
        }
        let done = run(folder, &["export", damage]);
        let said = text(&done.stdout);
        assert_eq!(done.status.code(), Some(1), "{said}{}", text(&done.stderr));
        assert_eq!(number_before(&said, " messages, "), LINES + 2, "{said}");
        assert!(
            said.contains("\nlost: file ") && said.contains("(\"lost\"): its bytes are lost"),
            "{said}"
        );
        assert_eq!(fs::read_dir(folder.join(damage).join("files")).unwrap().count(), 1);
    }

    let lines = folder.join("gone/messages.jsonl");
    let import = ["import", lines.to_str().unwrap(), "--database-url", "sqlite://new.db"];
    let done = run(folder, &import);
    let said = text(&done.stdout);
    assert_eq!(
        (done.status.code(), number_before(&said, " skipped")),
        (Some(1), 1),
        "{said}"
    );
    // The message says where.
    let exported = fs::read_to_string(&lines).unwrap();
    let place = exported.lines().find(|line| line.contains("\"lost\"")).unwrap();
    let place = place.split("\"path\":\"").nth(1).unwrap().split('"').next().unwrap();
    fs::copy(folder.join("lost"), folder.join("gone").join(place)).unwrap();
    let done = run(folder, &import);
    let said = text(&done.stdout);
    assert_eq!(
        (done.status.code(), number_before(&said, " sent")),
        (Some(0), 1),
        "{said}"
    );
}

#[test]
fn an_export_goes_only_into_an_empty_folder_and_only_of_what_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    store(folder);
    let all = run(folder, &["export", "all"]);
    assert_eq!(all.status.code(), Some(0), "{}", text(&all.stderr));
    let whole = fs::read_to_string(folder.join("all/messages.jsonl")).unwrap();
    let again = run(folder, &["export", "all"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("all is not empty: name a folder"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(fs::read_to_string(folder.join("all/messages.jsonl")).unwrap(), whole);
    for file in ["all", "all/files", "all/messages.jsonl"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(folder.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} is for nobody else");
    }

    let line = whole.lines().find(|line| line.contains("\"files\"")).unwrap();
    let room = line.split("\"room\":\"").nth(1).unwrap().split('"').next().unwrap();
    let one = run(
        folder,
        &["export", "one", "--conversation", room, "--conversation", room],
    );
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    let one = fs::read_to_string(folder.join("one/messages.jsonl")).unwrap();
    assert_eq!(one.lines().count(), 3, "{one}");
    assert!(
        one.lines().all(|line| whole.contains(line)),
        "the same lines in every export"
    );

    for (id, why) in [("7", "there is no conversation 7"), ("x", "must be a conversation_id")] {
        let none = run(folder, &["export", "none", "--conversation", id]);
        assert_eq!(none.status.code(), Some(2));
        assert!(text(&none.stderr).contains(why), "{}", text(&none.stderr));
        assert!(!folder.join("none").exists());
    }
}

#[test]
fn an_export_that_is_killed_is_never_taken_for_a_whole_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    store(folder);
    let mut killed = 0;
    for n in 0..20 {
        let name = format!("export{n}");
        let mut child = onescribe(folder, &["export", &name])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let place = folder.join(&name);
        while !place.join("messages.jsonl.part").exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        let lines = fs::read_to_string(place.join("messages.jsonl"));
        if ended.success() {
            assert!(lines.unwrap().lines().count() > LINES);
        } else {
            killed += 1;
            assert!(
                lines.is_err() || lines.unwrap().lines().count() > LINES,
                "half an export has the name of a whole one"
            );
        }
        if killed == 3 {
            return;
        }
    }
    panic!("every export was done before it could be killed");
}
