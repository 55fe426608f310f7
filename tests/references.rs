//! Where a Pod template can point at configuration: one test a place, then the cases that other tools got wrong.

use saferollback::core::object::Object;
use saferollback::core::pin::{difference, pin, same, strip_hash};
use saferollback::core::references::{
    Keys, Kind, Pinnable, Read, Reference, References, Use, extract, injected_trust_bundle, trust_bundle,
};
use serde_json::{Value, json};

fn in_container(container: Value) -> References {
    extract(&json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}))
}

/// Containers `app` and `log` and whatever they mount.
fn in_volume(volume: Value, app: Value, log: Value) -> References {
    let app = json!({"name": "app", "image": "web:1", "volumeMounts": app});
    let log = json!({"name": "log", "image": "log:1", "volumeMounts": log});
    extract(&json!({"spec": {"containers": [app, log], "volumes": [volume]}}))
}

fn only(found: &References) -> &Reference {
    assert_eq!(found.references.len(), 1, "{found:?}");
    &found.references[0]
}

fn only_use(found: &References) -> &Use {
    let reference = only(found);
    assert_eq!(reference.uses.len(), 1, "{found:?}");
    &reference.uses[0]
}

fn named(keys: &[&str]) -> Keys {
    Keys::Named(keys.iter().map(|k| k.to_string()).collect())
}

fn noted(found: &References) -> Vec<&str> {
    found.not_traced.iter().map(|n| n.pointer.as_str()).collect()
}

/// A keyRef that is overlooked is a Pod that will not start.
#[test]
fn key_references() {
    for (field, kind) in [("configMapKeyRef", Kind::ConfigMap), ("secretKeyRef", Kind::Secret)] {
        let from = json!({field: {"name": "settings", "key": "LOG_LEVEL"}});
        let env = json!([{"name": "A", "value": "settings"}, {"name": "B", "valueFrom": from}]);
        let found = in_container(json!({"name": "app", "env": env}));
        let expected = Use {
            pointer: "/spec/containers/0/env/1".into(),
            name_pointer: format!("/spec/containers/0/env/1/valueFrom/{field}/name"),
            container: Some("app".into()),
            init: false,
            read: Read::ContainerStart,
            keys: Keys::Data("LOG_LEVEL".into()),
            optional: false,
            listed: vec!["LOG_LEVEL".into()],
            pinnable: Pinnable::Yes,
        };
        assert_eq!(only(&found), &Reference { kind, name: "settings".into(), uses: vec![expected] });
        assert_eq!(only_use(&found).required_keys(), ["LOG_LEVEL"]);
        assert!(found.not_traced.is_empty());
    }
}

/// envFrom asks for the object and for no key of it (C42).
#[test]
fn environment_sources() {
    for (field, kind) in [("configMapRef", Kind::ConfigMap), ("secretRef", Kind::Secret)] {
        let source = json!({"prefix": "P_", field: {"name": "settings", "optional": true}});
        let found = in_container(json!({"name": "app", "envFrom": [source]}));
        let one = only_use(&found);
        assert_eq!((only(&found).kind, one.pointer.as_str()), (kind, "/spec/containers/0/envFrom/0"));
        assert_eq!(one.name_pointer, format!("/spec/containers/0/envFrom/0/{field}/name"));
        assert_eq!((&one.keys, one.optional), (&Keys::AllData, true));
        assert!(one.required_keys().is_empty() && only(&found).optional());
    }
}

/// The field of a Secret volume is `secretName`.
#[test]
fn volumes() {
    for (field, key, kind) in [("configMap", "name", Kind::ConfigMap), ("secret", "secretName", Kind::Secret)] {
        let volume = json!({"name": "v", field: {key: "settings", "defaultMode": 420}});
        let found = in_volume(volume, json!([{"name": "v", "mountPath": "/etc/app"}]), json!([]));
        let one = only_use(&found);
        assert_eq!((only(&found).kind, one.pointer.as_str()), (kind, "/spec/volumes/0"));
        assert_eq!(one.name_pointer, format!("/spec/volumes/0/{field}/{key}"));
        assert_eq!((one.container.as_deref(), one.read), (Some("app"), Read::RefreshedMount));
        assert_eq!((&one.keys, one.optional), (&Keys::All, false));
    }
}

/// stakater/Reloader#141: exactly three, at their own index; tokens are not configuration (C40).
#[test]
fn projected_sources() {
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "cm-a", "items": [{"key": "x", "path": "a/x"}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"secret": {"name": "secret-b"}},
        {"clusterTrustBundle": {"name": "bundle", "path": "ca.pem"}},
        {"podCertificate": {"signerName": "example.com/signer", "keyType": "ED25519"}},
        {"configMap": {"name": "cm-c", "optional": true}},
    ]);
    let volume = json!({"name": "v", "projected": {"defaultMode": 420, "sources": sources}});
    let found = in_volume(volume, json!([{"name": "v", "mountPath": "/etc"}]), json!([]));
    let at: Vec<_> = found.references.iter().map(|r| (r.kind, &r.name[..], &r.uses[0].name_pointer[..])).collect();
    assert_eq!(
        at,
        [
            (Kind::ConfigMap, "cm-a", "/spec/volumes/0/projected/sources/1/configMap/name"),
            (Kind::Secret, "secret-b", "/spec/volumes/0/projected/sources/3/secret/name"),
            (Kind::ConfigMap, "cm-c", "/spec/volumes/0/projected/sources/6/configMap/name"),
        ]
    );
    let uses: Vec<&Use> = found.references.iter().flat_map(|r| &r.uses).collect();
    assert_eq!(uses[0].pointer, "/spec/volumes/0/projected/sources/1");
    assert_eq!(uses.iter().map(|u| &u.keys).collect::<Vec<_>>(), [&named(&["x"]), &Keys::All, &Keys::All]);
    assert_eq!(uses.iter().map(|u| u.optional).collect::<Vec<_>>(), [false, false, true]);
    assert!(found.not_traced.is_empty());
}

/// Row 9. A missing pull secret does not stop a Pod, and a pinned one is a credential that was rotated away (C46).
#[test]
fn image_pull_secrets() {
    let found = extract(&json!({"spec": {"imagePullSecrets": [{"name": "registry"}, {}], "containers": []}}));
    let one = only_use(&found);
    assert_eq!(one.name_pointer, "/spec/imagePullSecrets/0/name");
    assert_eq!((one.read, one.pinnable, one.optional), (Read::ImagePull, Pinnable::ImagePull, true));
    assert_eq!(noted(&found), ["/spec/imagePullSecrets/1"]);
}

/// The Secret is a reference; what the driver fetches with it is said to be unknown.
#[test]
fn csi_volumes() {
    let csi = json!({
        "driver": "secrets-store.csi.k8s.io", "readOnly": true,
        "volumeAttributes": {"secretProviderClass": "azure-kv"}, "nodePublishSecretRef": {"name": "kv-creds"},
    });
    let found = in_volume(json!({"name": "v", "csi": csi}), json!([{"name": "v", "mountPath": "/s"}]), json!([]));
    let one = only_use(&found);
    assert_eq!((one.pointer.as_str(), one.read, one.pinnable), ("/spec/volumes/0", Read::Driver, Pinnable::Driver));
    assert_eq!(one.name_pointer, "/spec/volumes/0/csi/nodePublishSecretRef/name");
    assert_eq!(noted(&found), ["/spec/volumes/0/csi/volumeAttributes/secretProviderClass"]);
    assert!(found.not_traced[0].what.contains("azure-kv"));
}

/// Row 12. Old drivers keep their fields in the API; a required Secret must be seen even where nobody mounts it (C46).
#[test]
fn driver_secrets() {
    for driver in ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"] {
        let found = in_volume(json!({"name": "v", driver: {"secretRef": {"name": "s"}}}), json!([]), json!([]));
        assert_eq!(only_use(&found).name_pointer, format!("/spec/volumes/0/{driver}/secretRef/name"));
        assert_eq!((only(&found).kind, only_use(&found).read), (Kind::Secret, Read::Driver));
        assert!(found.not_traced.is_empty());
    }
    let azure = json!({"name": "v", "azureFile": {"secretName": "s", "shareName": "files"}});
    assert_eq!(only_use(&in_volume(azure, json!([]), json!([]))).name_pointer, "/spec/volumes/0/azureFile/secretName");
}

/// Row 13. Validation forbids them in templates, so a report of one would be about a Pod, not about the workload.
#[test]
fn ephemeral_containers_are_no_part_of_a_template() {
    let debug = json!([{"name": "debug", "envFrom": [{"configMapRef": {"name": "x"}}]}]);
    assert_eq!(extract(&json!({"spec": {"ephemeralContainers": debug}})), References::default());
}

/// Row 14. The variable is configuration, and no object in the template holds it.
#[test]
fn file_key_references_are_not_traced() {
    let from = json!({"fileKeyRef": {"volumeName": "work", "path": "app.env", "key": "A"}});
    let found = in_container(json!({"name": "app", "env": [{"name": "A", "valueFrom": from}]}));
    assert!(found.references.is_empty());
    assert_eq!(noted(&found), ["/spec/containers/0/env/0/valueFrom/fileKeyRef"]);
    assert!(found.not_traced[0].what.contains("work"));
}

/// Row 16. A pinned CA bundle breaks TLS at the next rotation.
#[test]
fn trust_bundles_keep_their_names() {
    let source = |name| json!({"configMap": {"name": name, "items": [{"key": "ca.crt", "path": "ca.crt"}]}});
    let sources = json!([source("kube-root-ca.crt"), source("openshift-service-ca.crt"), source("settings")]);
    let template = json!({"spec": {"volumes": [{"name": "v", "projected": {"sources": sources}}]}});
    let found = extract(&template);
    let pinnable: Vec<Pinnable> = found.references.iter().map(Reference::pinnable).collect();
    assert_eq!(pinnable, [Pinnable::TrustBundle, Pinnable::TrustBundle, Pinnable::Yes]);
    let names = [((Kind::ConfigMap, "kube-root-ca.crt".to_string()), "frozen".to_string())].into();
    assert_eq!(pin(&template, &names), template);
    assert!(trust_bundle("kube-root-ca.crt") && !trust_bundle("settings"));
    let secret = json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": "kube-root-ca.crt"}}]}});
    assert_eq!(extract(&secret).references[0].pinnable(), Pinnable::Yes, "a Secret of that name is no bundle");
    let injected = |metadata| injected_trust_bundle(&Object(json!({"metadata": metadata})));
    assert!(injected(json!({"labels": {"config.openshift.io/inject-trusted-cabundle": "true"}})));
    assert!(injected(json!({"annotations": {"service.beta.openshift.io/inject-cabundle": "true"}})));
    assert!(injected(json!({"labels": {"trust.cert-manager.io/bundle": "roots"}})));
    assert!(!injected(json!({"labels": {"app": "web"}})));
}

/// Row 17. Hints name the place and never the text: arguments hold passwords. A hint is no reference.
#[test]
fn arguments_and_annotations_are_hints() {
    let template = json!({
        "metadata": {"annotations": {
            "configmap.reloader.stakater.com/reload": "settings",
            "wave.pusher.com/extra-configmaps": "other/settings",
            "vault.hashicorp.com/agent-inject": "true",
            "vault.hashicorp.com/agent-inject-secret-db": "kv/db",
            "example.com/ConfigMap-name": "settings",
            "checksum/configmap": "0123abcd",
            "prometheus.io/scrape": "true",
        }},
        "spec": {"containers": [{"name": "app", "command": ["/bin/app", "--configmap=kube/settings"],
            "args": ["--tcp-services-config-map", "--password=hunter2", "--tls=k8s:secret/cert", "--secret=hunter2"]}]},
    });
    let found = extract(&template);
    assert!(found.references.is_empty());
    assert_eq!(
        noted(&found),
        [
            "/metadata/annotations/configmap.reloader.stakater.com~1reload",
            "/metadata/annotations/wave.pusher.com~1extra-configmaps",
            "/metadata/annotations/vault.hashicorp.com~1agent-inject",
            "/metadata/annotations/example.com~1ConfigMap-name",
            "/spec/containers/0/command/1",
            "/spec/containers/0/args/0",
            "/spec/containers/0/args/2",
        ]
    );
    for note in &found.not_traced {
        assert!(template.pointer(&note.pointer).is_some(), "{} leads nowhere", note.pointer);
        assert!(!note.what.contains("hunter2") && !note.what.contains("settings"));
    }
}

/// A source that a later Kubernetes adds would be passed over in silence, and the revision called safe.
#[test]
fn sources_of_unknown_kinds_are_said() {
    let template = json!({"spec": {
        "containers": [{"name": "app", "envFrom": [{"vaultRef": {"name": "x"}}],
            "env": [{"name": "A", "valueFrom": {"remoteRef": {"name": "x"}}}, {"name": "B", "valueFrom": null}]}],
        "volumes": [{"name": "v", "settingsStore": {"name": "x"}, "emptyDir": null},
            {"name": "w", "projected": {"sources": [{"externalMap": {"name": "x"}}]}}],
    }});
    let found = extract(&template);
    assert!(found.references.is_empty());
    assert_eq!(
        noted(&found),
        [
            "/spec/containers/0/envFrom/0/vaultRef",
            "/spec/containers/0/env/0/valueFrom/remoteRef",
            "/spec/volumes/0/settingsStore",
            "/spec/volumes/1/projected/sources/0/externalMap",
        ]
    );
}

/// Old servers accept an empty name. As a reference it would be looked up as the list of all ConfigMaps.
#[test]
fn nameless_sources_are_not_references() {
    let template = json!({"spec": {
        "containers": [{"name": "app", "envFrom": [{"configMapRef": {"name": ""}}, {"secretRef": {}}],
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings"}}}]}],
        "volumes": [{"name": "v", "configMap": {"name": null}}, {"name": "w", "secret": {"name": "wrong-field"}}],
    }});
    let found = extract(&template);
    assert!(found.references.is_empty());
    assert_eq!(
        noted(&found),
        [
            "/spec/containers/0/envFrom/0/configMapRef",
            "/spec/containers/0/envFrom/1/secretRef",
            "/spec/containers/0/env/0/valueFrom/configMapKeyRef",
            "/spec/volumes/0/configMap",
            "/spec/volumes/1/secret",
        ]
    );
}

/// kubernetes/kubernetes#50345: one volume, one frozen reader and one that is refreshed (C48).
#[test]
fn each_container_reads_a_volume_in_its_own_way() {
    let volume = json!({"name": "v", "configMap": {"name": "settings"}});
    let found = in_volume(
        volume,
        json!([{"name": "v", "mountPath": "/a", "subPath": "a.conf"}, {"name": "v", "mountPath": "/b", "subPath": "./b.conf"}]),
        json!([{"name": "v", "mountPath": "/etc/all"}, {"name": "v", "mountPath": "/c", "subPath": "c.conf"}]),
    );
    let uses: Vec<_> = only(&found).uses.iter().map(|u| (u.container.as_deref(), u.read, u.keys.clone())).collect();
    let file = |keys: &[&str]| Keys::File(keys.iter().map(|k| k.to_string()).collect());
    assert_eq!(
        uses,
        [
            (Some("app"), Read::Mount, file(&["a.conf", "b.conf"])),
            (Some("log"), Read::RefreshedMount, Keys::All),
            (Some("log"), Read::Mount, file(&["c.conf"])),
        ]
    );
    assert!(only(&found).uses.iter().all(|u| u.pointer == "/spec/volumes/0" && u.required_keys().is_empty()));
}

/// A subPath that leads to the wrong key makes an edit invisible.
#[test]
fn sub_paths_lead_to_keys() {
    let whole = json!({"name": "v", "configMap": {"name": "settings"}});
    let items = json!({"name": "v", "configMap": {"name": "settings", "items": [
        {"key": "k1", "path": "conf/a"}, {"key": "k2", "path": "conf/b"}, {"key": "k3", "path": "confer"},
        {"key": "k1", "path": "conf/again"},
    ]}});
    let keys = |volume: &Value, mount: Value| {
        let mut mount = mount;
        mount["name"] = json!("v");
        let found = in_volume(volume.clone(), json!([mount]), json!([]));
        let one = only_use(&found).clone();
        (one.read, one.keys, one.listed)
    };
    let all = vec!["k1".to_string(), "k2".to_string(), "k3".to_string()];
    let with_items = |mount, read, expected: &[&str]| {
        assert_eq!(keys(&items, mount), (read, named(expected), all.clone()));
    };
    with_items(json!({}), Read::RefreshedMount, &["k1", "k2", "k3"]);
    with_items(json!({"subPath": ""}), Read::RefreshedMount, &["k1", "k2", "k3"]);
    with_items(json!({"subPath": "."}), Read::RefreshedMount, &["k1", "k2", "k3"]);
    with_items(json!({"subPath": "conf"}), Read::Mount, &["k1", "k2"]);
    with_items(json!({"subPath": "conf/"}), Read::Mount, &["k1", "k2"]);
    with_items(json!({"subPath": "conf/b"}), Read::Mount, &["k2"]);
    with_items(json!({"subPath": "confer"}), Read::Mount, &["k3"]);
    with_items(json!({"subPath": "elsewhere"}), Read::Mount, &[]);
    with_items(json!({"subPathExpr": "$(WHO)/b"}), Read::Mount, &["k1", "k2", "k3"]);
    // The kubelet's own link, used to mount a whole directory that never moves.
    with_items(json!({"subPath": "..data"}), Read::Mount, &["k1", "k2", "k3"]);
    with_items(json!({"subPath": "..data/conf/b"}), Read::Mount, &["k2"]);
    assert_eq!(keys(&whole, json!({"subPathExpr": "$(WHO)"})).1, Keys::All);
    // The API refuses both; read from a file, the wider one counts.
    assert_eq!(keys(&whole, json!({"subPath": "x", "subPathExpr": "$(WHO)"})).1, Keys::All);
    assert_eq!(keys(&whole, json!({"subPath": "..data/x"})).1, Keys::File(vec!["x".into()]));
    assert_eq!(keys(&whole, json!({"subPath": "x/y"})).1, Keys::File(vec!["x".into()]));
    assert_eq!(keys(&whole, json!({"subPath": "a/../b"})).1, Keys::All);
}

/// Two mounts in one container read what both see; keeping the first alone would hide an edit of the second.
#[test]
fn mounts_of_one_container_add_up() {
    let keys = |source: Value, first: Value, second: Value| {
        let mounts = json!([
            {"name": "v", "mountPath": "/a", "subPath": first["subPath"], "subPathExpr": first["subPathExpr"]},
            {"name": "v", "mountPath": "/b", "subPath": second["subPath"], "subPathExpr": second["subPathExpr"]},
        ]);
        only_use(&in_volume(json!({"name": "v", "configMap": source}), mounts, json!([]))).keys.clone()
    };
    let items = json!({"name": "settings", "items": [
        {"key": "k1", "path": "a"}, {"key": "k2", "path": "b"}, {"key": "k3", "path": "c"},
    ]});
    let whole = json!({"name": "settings"});
    assert_eq!(keys(items, json!({"subPath": "b"}), json!({"subPath": "a"})), named(&["k2", "k1"]));
    let wider = keys(whole, json!({"subPath": "b"}), json!({"subPathExpr": "$(WHO)"}));
    assert_eq!(wider, Keys::All);
}

/// A volume that nobody mounts is of no matter to anybody, the kubelet included.
#[test]
fn unmounted_volumes_are_not_read_and_need_not_exist() {
    let volume = json!({"name": "v", "configMap": {"name": "settings", "items": [{"key": "k", "path": "p"}]}});
    let found = in_volume(volume, json!([{"name": "other", "mountPath": "/x"}]), json!([]));
    let one = only_use(&found);
    assert_eq!((one.read, &one.container, &one.keys), (Read::Unmounted, &None, &named(&[])));
    assert_eq!((one.required_keys(), &one.listed), (&[][..], &vec!["k".to_string()]));
    assert!(found.references[0].optional() && found.references[0].unread());
}

/// Init containers and sidecars (init containers that stay) read too; Wave overlooks them (C46).
#[test]
fn init_containers_and_sidecars() {
    let reader = |name| {
        json!({"name": name, "envFrom": [{"configMapRef": {"name": "settings"}}],
        "volumeMounts": [{"name": "v", "mountPath": "/etc"}]})
    };
    let mut sidecar = reader("proxy");
    sidecar["restartPolicy"] = json!("Always");
    let template = json!({"spec": {
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
        "containers": [reader("app")], "initContainers": [reader("migrate"), sidecar],
    }});
    let found = extract(&template);
    let uses: Vec<_> = only(&found).uses.iter().map(|u| (&u.pointer[..], u.container.as_deref(), u.init)).collect();
    assert_eq!(
        uses,
        [
            ("/spec/initContainers/0/envFrom/0", Some("migrate"), true),
            ("/spec/initContainers/1/envFrom/0", Some("proxy"), true),
            ("/spec/containers/0/envFrom/0", Some("app"), false),
            ("/spec/volumes/0", Some("migrate"), true),
            ("/spec/volumes/0", Some("proxy"), true),
            ("/spec/volumes/0", Some("app"), false),
        ]
    );
}

/// Every way to write a reference, for both kinds, in one template: each found once, each at its place (C46).
#[test]
fn all_forms_together() {
    let container = |p: &str| {
        json!({
            "name": format!("{p}c"),
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": format!("{p}1"), "key": "k"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": format!("{p}2"), "key": "k", "optional": true}}}],
            "envFrom": [{"configMapRef": {"name": format!("{p}3")}}, {"secretRef": {"name": format!("{p}4")}}],
            "volumeMounts": [{"name": "cm", "mountPath": "/1"}, {"name": "p", "mountPath": "/2", "subPath": "x"}],
        })
    };
    let template = json!({"spec": {
        "initContainers": [container("i")], "containers": [container("c")],
        "volumes": [
            {"name": "cm", "configMap": {"name": "v1", "defaultMode": 256, "items": [{"key": "k", "path": "p", "mode": 256}]}},
            {"name": "s", "secret": {"secretName": "v2", "optional": true}},
            {"name": "p", "projected": {"sources": [{"configMap": {"name": "v3"}}, {"secret": {"name": "v4"}}]}},
            {"name": "csi", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "v5"}}},
        ],
        "imagePullSecrets": [{"name": "v6"}],
    }});
    let found = extract(&template);
    let names: Vec<&str> = found.references.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, "i3 i4 i1 i2 c3 c4 c1 c2 v1 v2 v3 v4 v5 v6".split(' ').collect::<Vec<_>>());
    for reference in &found.references {
        for one in &reference.uses {
            assert_eq!(template.pointer(&one.name_pointer), Some(&json!(reference.name)));
            assert!(one.name_pointer.starts_with(&format!("{}/", one.pointer)));
        }
    }
    let counts: Vec<usize> = found.references.iter().map(|r| r.uses.len()).collect();
    assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 2, 2, 1, 1]);
    let not_pinned: Vec<&str> =
        names.iter().zip(&found.references).filter(|(_, r)| r.pinnable() != Pinnable::Yes).map(|(n, _)| *n).collect();
    assert_eq!(not_pinned, ["v5", "v6"]);
    assert!(found.get(Kind::Secret, "v1").is_none() && found.get(Kind::ConfigMap, "v1").is_some());
}

/// One object with an optional and a required use is required (the flag belongs to the revision's own use).
#[test]
fn an_object_is_optional_only_if_every_use_is() {
    let source = |optional: bool| json!({"configMapRef": {"name": "settings", "optional": optional}});
    let optional = |a, b| {
        let found = in_container(json!({"name": "app", "envFrom": [source(a), source(b)]}));
        only(&found).optional()
    };
    assert!(optional(true, true));
    assert!(!optional(true, false));
    let text = json!({"name": "app", "envFrom": [{"configMapRef": {"name": "settings", "optional": "true"}}]});
    assert!(!only(&in_container(text)).optional(), "only a boolean makes a use optional");
    let with = json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c", "optional": true}}]}});
    let without = json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}});
    assert_eq!(difference(&with, &without), ["/spec/volumes/0/configMap/optional"], "the cause is shown");
}

/// Templates come from files too: wrong shapes must be passed over, not end the program.
#[test]
fn malformed_templates_are_survived() {
    let odd = [
        json!(null),
        json!([]),
        json!("spec"),
        json!({"spec": []}),
        json!({"metadata": {"annotations": [1]}, "spec": {"containers": {"0": {}}, "volumes": [null, 3, []]}}),
        json!({"spec": {"containers": [{"envFrom": "x", "env": [null, {"valueFrom": 3}], "volumeMounts": [{}]}]}}),
        json!({"spec": {"volumes": [{"configMap": 3}, {"projected": {"sources": {"a": 1}}}], "imagePullSecrets": [7]}}),
        json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c", "items": [null, {"key": 3}, {}]}}]}}),
    ];
    for template in &odd {
        let found = extract(template);
        assert!(found.references.len() <= 1, "{found:?}");
        assert_eq!(&pin(template, &Default::default()), template);
        assert_eq!(&strip_hash(template), template);
        assert!(same(template, template));
    }
}

/// Numbered as the API server would have it; every name the tests pin.
fn names(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<(Kind, String), String> {
    pairs.iter().map(|(old, new)| ((Kind::ConfigMap, old.to_string()), new.to_string())).collect()
}

/// Order, duplicates, prefixes, numbers and fields that nobody knows survive as text
/// (kubernetes/kubernetes#58477, openkruise/rollouts#335). A round trip through typed structs fails here.
/// (C20, C41, C42)
#[test]
fn pinning_changes_names_and_not_one_byte_more() {
    let text = concat!(
        r#"{"spec":{"futureField":{"a":1.0,"b":1e+3,"c":12345678901234567890123},"containers":[{"name":"app","#,
        r#""lifecycle":{"preStop":{"sleep":{"seconds":5}}},"futureField":{"z":null,"a":[]},"#,
        r#""envFrom":[{"configMapRef":{"name":"settings"}},{"prefix":"P_","secretRef":{"name":"settings"}},"#,
        r#"{"configMapRef":{"optional":false,"name":"cm-c"}}],"#,
        r#""env":[{"name":"A","value":"1"},{"name":"B","value":"$(A)/settings"},{"name":"A","value":"2"},"#,
        r#"{"valueFrom":{"configMapKeyRef":{"key":"settings","name":"settings"}},"name":"settings"}],"#,
        r#""args":["settings"]}],"initContainers":[{"name":"settings","restartPolicy":"Always"}],"#,
        r#""volumes":[{"configMap":{"name":"settings","items":[{"path":"settings","key":"settings"}]},"name":"settings"}]},"#,
        r#""metadata":{"labels":{"z":"settings","app":"web"},"annotations":{"note":"settings"}}}"#,
    );
    let template: Value = serde_json::from_str(text).expect("a template");
    let pinned = pin(&template, &names(&[("settings", "settings-sr-0123456789abcdef"), ("absent", "x")]));
    let expected = text
        .replace(
            r#"{"configMapRef":{"name":"settings"}}"#,
            r#"{"configMapRef":{"name":"settings-sr-0123456789abcdef"}}"#,
        )
        .replace(r#""key":"settings","name":"settings"}"#, r#""key":"settings","name":"settings-sr-0123456789abcdef"}"#)
        .replace(r#"{"name":"settings","items""#, r#"{"name":"settings-sr-0123456789abcdef","items""#);
    assert_eq!(serde_json::to_string(&pinned).unwrap(), expected);
    assert_eq!(serde_json::to_string(&template).unwrap(), text);
}

/// Names that swap must swap: a second pass over renamed references would undo the first.
#[test]
fn names_may_swap() {
    let container =
        json!({"name": "app", "envFrom": [{"configMapRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}]});
    let template = json!({"spec": {"containers": [container]}});
    let pinned = pin(&template, &names(&[("a", "b"), ("b", "a")]));
    let found: Vec<String> = extract(&pinned).references.into_iter().map(|r| r.name).collect();
    assert_eq!(found, ["b", "a"]);
}

/// rancher/rancher#39103: the hash label goes, every other label stays where it was (C19).
#[test]
fn only_the_hash_label_is_stripped() {
    let text = r#"{"metadata":{"labels":{"pod-template-hash":"abc","app":"web","z":"1","tier":"x"}},"spec":{"pod-template-hash":"kept"}}"#;
    let stripped = strip_hash(&serde_json::from_str(text).unwrap());
    let expected = text.replace(r#""pod-template-hash":"abc","#, "");
    assert_eq!(serde_json::to_string(&stripped).unwrap(), expected);
    assert_eq!(strip_hash(&json!({"metadata": {"labels": null}})), json!({"metadata": {"labels": null}}));
}

/// kubernetes/kubernetes#61639: a needless rollout, or an undo that silently does nothing (C30).
#[test]
fn templates_are_compared_as_kubernetes_does() {
    let base = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}});
    let equal = [
        json!({"metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}}, "spec": {"containers": [{"name": "app"}]}}),
        json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {"containers": [{"name": "app"}]}}),
        json!({"spec": {"volumes": null, "containers": [{"env": [], "name": "app"}]}, "metadata": {"labels": {"app": "web"}, "annotations": {}}}),
    ];
    for other in &equal {
        assert!(same(&base, other) && same(other, &base), "{:?}", difference(&base, other));
    }
    let differ = [
        (
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "env": [{"name": "A"}]}]}}),
            "/spec/containers/0/env",
        ),
        (
            json!({"metadata": {"labels": {"app": "web", "a~/b": "1"}}, "spec": {"containers": [{"name": "app"}]}}),
            "/metadata/labels/a~0~1b",
        ),
        (
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "emptyDir": {}}]}}),
            "/spec/containers/0/emptyDir",
        ),
        (
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}, {"name": "b"}]}}),
            "/spec/containers",
        ),
        (
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "APP"}]}}),
            "/spec/containers/0/name",
        ),
    ];
    for (other, pointer) in &differ {
        assert_eq!(difference(&base, other), [*pointer]);
        assert_eq!(difference(other, &base), [*pointer]);
    }
    let hash_only = json!({"metadata": {"labels": {"pod-template-hash": "abc"}}});
    assert!(same(&hash_only, &json!({"metadata": {}})));
}
