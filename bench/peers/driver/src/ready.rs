//! How a system is built or installed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::child::Program;

/// How long a build or an installation may take.
const PATIENCE: Duration = Duration::from_hours(1);

/// The folder of the peers.
fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo builds, and where everything else is put that is not to be kept.
fn target() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2);
    Ok(target.ok_or("this program lies in no target directory")?.to_owned())
}

/// A peer in Rust, built as this program was, but always for release.
pub(crate) async fn built(package: &str) -> Result<Program> {
    let target = target()?;
    let manifest = peers().join("Cargo.toml");
    let build = ["cargo", "build", "--release", "--quiet", "--package", package];
    let mut line: Vec<OsString> = build.map(OsString::from).to_vec();
    line.extend(["--manifest-path".into(), manifest.into_os_string()]);
    line.extend(["--target-dir".into(), target.clone().into_os_string()]);
    Program(line).run(&[], PATIENCE).await?;
    Ok(Program(vec![target.join("release").join(package).into_os_string()]))
}

/// A peer in Python, with an environment of its own.
pub(crate) async fn python(name: &str) -> Result<Program> {
    let folder = copied(name)?;
    let python = folder.join("environment/bin/python");
    if changed(&folder, "requirements.txt")? {
        let environment = folder.join("environment").into_os_string();
        let make = ["python3", "-m", "venv"].map(OsString::from).to_vec();
        Program([make, vec![environment]].concat()).run(&[], PATIENCE).await?;
        let install = ["-m", "pip", "install", "--quiet", "--requirement"].map(OsString::from);
        let mut line = vec![python.clone().into_os_string()];
        line.extend(install);
        line.push(folder.join("requirements.txt").into_os_string());
        Program(line).run(&[], PATIENCE).await?;
        installed(&folder, "requirements.txt")?;
    }
    Ok(Program(vec![
        python.into_os_string(),
        folder.join("peer.py").into_os_string(),
    ]))
}

/// A peer in JavaScript, with packages of its own.
pub(crate) async fn node(name: &str) -> Result<Program> {
    let folder = copied(name)?;
    if changed(&folder, "package.json")? {
        let install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix"].map(OsString::from);
        let mut line = install.to_vec();
        line.push(folder.clone().into_os_string());
        Program(line).run(&[], PATIENCE).await?;
        installed(&folder, "package.json")?;
    }
    // The node that the packages ask for comes as one of them.
    let node = folder.join("node_modules/.bin/node").into_os_string();
    Ok(Program(vec![node, folder.join("peer.mjs").into_os_string()]))
}

/// The files of a peer and of the frame, copied to where its packages are installed: scripts find packages beside them.
fn copied(name: &str) -> Result<PathBuf> {
    let folder = target()?.join("installed").join(name);
    fs::create_dir_all(&folder)?;
    for from in [peers().join(name), peers().join("frame")] {
        for entry in fs::read_dir(from)? {
            let path = entry?.path();
            let script = path.extension().is_some_and(|extension| extension != "toml");
            if let (true, Some(file)) = (path.is_file() && script, path.file_name()) {
                fs::copy(&path, folder.join(file))?;
            }
        }
    }
    Ok(folder)
}

/// Whether something else is asked for than what was installed.
fn changed(folder: &Path, list: &str) -> Result<bool> {
    let wanted = fs::read_to_string(folder.join(list))?;
    Ok(fs::read_to_string(folder.join("installed")).ok() != Some(wanted))
}

fn installed(folder: &Path, list: &str) -> Result<()> {
    fs::copy(folder.join(list), folder.join("installed"))?;
    Ok(())
}
