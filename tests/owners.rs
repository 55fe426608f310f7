//! Who will fight a rollback: what each tool leaves on a workload, by its own documentation, and what its objects say.

use saferollback::core::object::Object;
use saferollback::core::owners::{
    Claim, Healing, Looked, Overwritten, Owner, Tool, claims, one_application, overwritten, owner, release_revision,
    scalers,
};
use serde_json::{Value, json};

/// A Deployment as kubectl leaves it: nobody's.
fn web(change: impl FnOnce(&mut Value)) -> Object {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "generation": 2, "labels": {"app": "web"}, "annotations": {"team": "shop"},
            "managedFields": [entry("kubectl-client-side-apply", "Update", "2026-11-29T12:00:00Z", &template_fields())],
        },
        "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "web:1"}]}}},
    });
    change(&mut object);
    Object(object)
}

fn entry(manager: &str, operation: &str, time: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": fields})
}

fn template_fields() -> Value {
    json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {"f:image": {}}}}}}})
}

fn manager(object: &mut Value, name: &str, fields: &Value) {
    let entry = entry(name, "Apply", "2026-11-29T12:00:00Z", fields);
    object["metadata"]["managedFields"].as_array_mut().expect("entries").push(entry);
}

fn label(object: &mut Value, key: &str, value: &str) {
    object["metadata"]["labels"][key] = json!(value);
}

fn annotation(object: &mut Value, key: &str, value: &str) {
    object["metadata"]["annotations"][key] = json!(value);
}

/// The claims in short: `argo-cd Application argocd/web`.
fn claimed(object: &Object) -> Vec<String> {
    let object_of = |claim: &Claim| match &claim.object {
        Some(o) => format!("{} {}/{}", o.kind, o.namespace, o.name),
        None => "?".into(),
    };
    claims(object).iter().map(|c| format!("{} {}", c.tool.word(), object_of(c))).collect()
}

fn judged(object: &Object, looked: &Looked) -> Owner {
    let claim = claims(object).into_iter().next().expect("a claim");
    owner(claim, object, looked)
}

fn found(object: Value) -> Looked {
    Looked::Found(Box::new(Object(object)))
}

/// Otherwise every workload of a chart would be said to be somebody's, and warnings that are always there are not read.
#[test]
fn an_ordinary_workload_is_nobodys() {
    assert_eq!(claimed(&web(|_| {})), [""; 0]);
    let chart = web(|o| {
        label(o, "app.kubernetes.io/instance", "web");
        label(o, "app.kubernetes.io/managed-by", "Helm");
    });
    assert_eq!(claimed(&chart), [""; 0], "labels that charts set without Argo CD and without a release");
    // A manager that owns something else than the template: a status, an annotation.
    let status = web(|o| {
        for name in ["argocd-controller", "kustomize-controller", "helm-controller"] {
            manager(o, name, &json!({"f:metadata": {"f:annotations": {"f:x": {}}}}));
        }
    });
    assert_eq!(claimed(&status), [""; 0]);
}

/// Otherwise an undo under Argo CD would look done and be gone seconds later.
#[test]
fn c25_argo_cd_is_recognised_by_what_it_tracks_with() {
    let tracking = |id: &str| {
        let id = id.to_string();
        claimed(&web(move |o| annotation(o, "argocd.argoproj.io/tracking-id", &id)))
    };
    assert_eq!(tracking("storefront:apps/Deployment:shop/web"), ["argo-cd Application /storefront"]);
    assert_eq!(tracking("team-a_storefront:apps/Deployment:shop/web"), ["argo-cd Application team-a/storefront"]);
    // Copied from another object: Argo CD passes over it.
    for copied in ["storefront:apps/Deployment:shop/other", "storefront:apps/StatefulSet:shop/web", ":", ""] {
        assert_eq!(tracking(copied), [""; 0], "{copied}");
    }
    let own_label = web(|o| label(o, "argocd.argoproj.io/instance", "storefront"));
    assert_eq!(claimed(&own_label), ["argo-cd Application /storefront"]);
    for name in ["argocd-controller", "argocd-application-controller"] {
        let shared = web(|o| {
            label(o, "app.kubernetes.io/instance", "storefront");
            manager(o, name, &template_fields());
        });
        assert_eq!(claimed(&shared), ["argo-cd Application /storefront"]);
        assert_eq!(claimed(&web(|o| manager(o, name, &template_fields()))), ["argo-cd ?"]);
    }
}

/// Otherwise a rollback would be refused where Argo CD lets it stand, or written where it is put back at once.
#[test]
fn c25_only_automated_self_healing_is_healing() {
    let web = web(|o| label(o, "argocd.argoproj.io/instance", "storefront"));
    let healing = |spec: Value, annotations: Value| {
        let metadata = json!({"name": "storefront", "namespace": "argocd", "annotations": annotations});
        judged(&web, &found(json!({"kind": "Application", "metadata": metadata, "spec": spec})))
    };
    let policy = |automated: Value| json!({"syncPolicy": {"automated": automated}});
    let heals = healing(policy(json!({"prune": true, "selfHeal": true})), json!({}));
    assert_eq!(heals.healing, Healing::Yes);
    assert_eq!(
        heals.title(),
        "application/storefront in namespace argocd (Argo CD)",
        "its namespace is where it was found"
    );
    assert_eq!(heals.deed(), "puts back what others write");
    for (spec, why) in [
        (json!({}), "manual"),
        (json!({"syncPolicy": {}}), "manual"),
        (policy(Value::Null), "manual"),
        (policy(json!({})), "without selfHeal"),
        (policy(json!({"selfHeal": false})), "without selfHeal"),
        (policy(json!({"selfHeal": true, "enabled": false})), "switched off"),
    ] {
        let owner = healing(spec.clone(), json!({}));
        assert_eq!(owner.healing, Healing::No, "{spec}");
        assert!(owner.why.contains(why), "{}", owner.why);
        assert_eq!(owner.deed(), "brings its own template back at the next sync");
    }
    let enabled = policy(json!({"selfHeal": true, "enabled": null}));
    assert_eq!(healing(enabled.clone(), json!({})).healing, Healing::Yes, "null is as absent");
    let skipped = healing(enabled, json!({"argocd.argoproj.io/skip-reconcile": "true"}));
    assert_eq!(skipped.healing, Healing::No);
}

/// Otherwise what could not be read would pass for harmless: Argo CD often runs in another cluster.
#[test]
fn an_owner_that_cannot_be_read_is_an_open_question() {
    let web = web(|o| label(o, "argocd.argoproj.io/instance", "storefront"));
    let absent = judged(&web, &Looked::Absent);
    assert_eq!((absent.tool, absent.healing), (Tool::ArgoCd, Healing::Unknown));
    assert!(absent.why.contains("not in this cluster"), "{}", absent.why);
    let forbidden = judged(&web, &Looked::Unknown("not allowed to get applications".into()));
    assert_eq!(forbidden.healing, Healing::Unknown);
    assert!(forbidden.why.contains("not allowed"), "{}", forbidden.why);
    assert_eq!(forbidden.title(), "application/storefront (Argo CD)");
    assert!(forbidden.sentence().contains("may put back"), "{}", forbidden.sentence());
}

/// Otherwise an Application of the same name in another team's namespace would decide.
#[test]
fn of_several_applications_the_one_that_lists_the_workload() {
    let application = |namespace: &str, listed: &str| {
        let resource = json!({"group": "apps", "kind": "Deployment", "namespace": "shop", "name": listed});
        Object(json!({"metadata": {"name": "storefront", "namespace": namespace}, "status": {"resources": [resource]}}))
    };
    let web = web(|_| {});
    let (ours, theirs) = (application("a", "web"), application("b", "other"));
    assert_eq!(one_application(&[theirs.clone(), ours.clone()], &web).map(Object::namespace), Ok("a"));
    assert_eq!(one_application(std::slice::from_ref(&theirs), &web).map(Object::namespace), Ok("b"), "no choice");
    assert!(one_application(&[theirs.clone(), theirs], &web).is_err());
    assert!(one_application(&[ours.clone(), ours], &web).is_err());
}

/// Otherwise an undo under Flux would be gone at the next reconciliation.
#[test]
fn c25_flux_is_recognised_and_asked() {
    let flux = |group: &'static str| {
        web(move |o| {
            label(o, &format!("{group}.toolkit.fluxcd.io/name"), "apps");
            label(o, &format!("{group}.toolkit.fluxcd.io/namespace"), "flux-system");
        })
    };
    let kustomized = flux("kustomize");
    assert_eq!(claimed(&kustomized), ["flux Kustomization flux-system/apps"]);
    assert_eq!(claimed(&flux("helm")), ["flux HelmRelease flux-system/apps"]);
    assert_eq!(claimed(&web(|o| manager(o, "kustomize-controller", &template_fields()))), ["flux ?"]);
    assert_eq!(claimed(&web(|o| manager(o, "helm-controller", &template_fields()))), ["flux ?"]);

    let kustomization = |spec: Value| {
        found(json!({"kind": "Kustomization", "metadata": {"name": "apps", "namespace": "flux-system"}, "spec": spec}))
    };
    let heals = judged(&kustomized, &kustomization(json!({"interval": "10m"})));
    assert_eq!(heals.healing, Healing::Yes);
    assert!(heals.why.contains("every 10m"), "{}", heals.why);
    assert_eq!(judged(&kustomized, &kustomization(json!({"suspend": false}))).healing, Healing::Yes);
    let suspended = judged(&kustomized, &kustomization(json!({"suspend": true})));
    assert_eq!((suspended.healing, suspended.deed()), (Healing::No, "brings its own template back at the next sync"));
    // The workload itself may be exempt, whatever the Kustomization says.
    for (key, value) in [("reconcile", "disabled"), ("ssa", "Ignore"), ("ssa", "IfNotPresent")] {
        let mut exempt = kustomized.clone();
        annotation(&mut exempt.0, &format!("kustomize.toolkit.fluxcd.io/{key}"), value);
        assert_eq!(judged(&exempt, &kustomization(json!({}))).healing, Healing::No, "{key}={value}");
    }
    let mut merged = kustomized;
    annotation(&mut merged.0, "kustomize.toolkit.fluxcd.io/ssa", "Merge");
    assert_eq!(judged(&merged, &kustomization(json!({}))).healing, Healing::Yes, "its own fields it takes back");
}

/// Otherwise every chart under Flux would be refused: a HelmRelease looks at its objects only when it is told to.
#[test]
fn a_helm_release_heals_only_with_drift_detection() {
    let mut web = web(|o| {
        label(o, "helm.toolkit.fluxcd.io/name", "web");
        label(o, "helm.toolkit.fluxcd.io/namespace", "shop");
    });
    let release = |spec: Value| {
        found(json!({"kind": "HelmRelease", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}))
    };
    let enabled = json!({"driftDetection": {"mode": "enabled"}});
    assert_eq!(judged(&web, &release(enabled.clone())).healing, Healing::Yes);
    for spec in
        [json!({}), json!({"driftDetection": {"mode": "warn"}}), json!({"driftDetection": {"mode": "disabled"}})]
    {
        assert_eq!(judged(&web, &release(spec.clone())).healing, Healing::No, "{spec}");
    }
    let suspended = json!({"suspend": true, "driftDetection": {"mode": "enabled"}});
    assert_eq!(judged(&web, &release(suspended)).healing, Healing::No);
    label(&mut web.0, "kustomize.toolkit.fluxcd.io/reconcile", "disabled");
    assert_eq!(judged(&web, &release(enabled.clone())).healing, Healing::Yes, "that is a Kustomization's word");
    label(&mut web.0, "helm.toolkit.fluxcd.io/driftDetection", "disabled");
    assert_eq!(judged(&web, &release(enabled)).healing, Healing::No, "exempt");
}

/// Otherwise the next `helm upgrade` would bring the problem back, and nobody would have said which release to look at.
#[test]
fn helm_is_named_with_its_release() {
    let helm = |name: &str| {
        let name = name.to_string();
        web(move |o| {
            label(o, "app.kubernetes.io/managed-by", "Helm");
            annotation(o, "meta.helm.sh/release-name", &name);
            annotation(o, "meta.helm.sh/release-namespace", "releases");
        })
    };
    assert_eq!(claimed(&helm("web")), ["helm Release releases/web"]);
    let owner = judged(&helm("web"), &Looked::Absent);
    assert_eq!((owner.healing, owner.deed()), (Healing::No, "brings its own template back at the next upgrade"));
    let said = owner.sentence();
    assert!(said.contains("helm history web -n releases; helm rollback web REVISION -n releases"), "{said}");
    // An annotation is anybody's text: what could run something else when it is pasted is not made a command.
    for bad in ["web; rm -rf /", "$(id)", "--help", ""] {
        assert!(!judged(&helm(bad), &Looked::Absent).sentence().contains("helm history"), "{bad}");
    }

    let secret = |name: &str, status: &str| Object(json!({"metadata": {"name": name, "labels": {"status": status}}}));
    let all = [
        secret("sh.helm.release.v1.web.v9", "superseded"),
        secret("sh.helm.release.v1.web.v10", "deployed"),
        secret("sh.helm.release.v1.web.v11", "failed"),
        secret("sh.helm.release.v1.other.v99", "deployed"),
    ];
    assert_eq!(release_revision(&all, "web"), Some(10));
    assert_eq!(release_revision(&all[2..], "web"), Some(11), "none is deployed");
    assert_eq!(release_revision(&all, "absent"), None);
}

/// Otherwise kapp's and operators' workloads would be written as if nobody watched them.
#[test]
fn kapp_and_operators_are_recognised() {
    let kapp = web(|o| label(o, "kapp.k14s.io/app", "1607456346214518000"));
    let owner = judged(&kapp, &Looked::Absent);
    assert_eq!((owner.tool, owner.healing), (Tool::Kapp, Healing::Unknown));
    assert!(owner.sign.contains("1607456346214518000"), "{}", owner.why);

    let reference = |controller: Value| {
        web(|o| {
            o["metadata"]["ownerReferences"] = json!([{"apiVersion": "x.example/v1", "kind": "Shop", "name": "main",
                "uid": "u", "controller": controller}]);
        })
    };
    let controlled = judged(&reference(json!(true)), &Looked::Absent);
    assert_eq!((controlled.tool, controlled.healing), (Tool::Operator, Healing::Yes));
    assert_eq!(controlled.title(), "shop/main");
    for controller in [json!(false), Value::Null] {
        assert_eq!(judged(&reference(controller), &Looked::Absent).healing, Healing::Unknown);
    }
}

/// Otherwise an autoscaler would pass for one that fights, or the plan's number of Pods for a promise.
#[test]
fn autoscalers_of_the_workload_are_noted() {
    let scaler = |kind: &str, name: &str, api_version: &str| {
        Object(json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": name}}}))
    };
    let scaling = |object: Object| scalers(Tool::Hpa, "/spec/scaleTargetRef", &[object], &web(|_| {})).len();
    assert_eq!(scaling(scaler("Deployment", "web", "apps/v1")), 1);
    assert_eq!(scaling(scaler("Deployment", "other", "apps/v1")), 0);
    assert_eq!(scaling(scaler("StatefulSet", "web", "apps/v1")), 0);
    assert_eq!(scaling(scaler("Deployment", "web", "x.example/v1")), 0);
    let vpa = Object(json!({"kind": "VerticalPodAutoscaler", "metadata": {"name": "sizer", "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}));
    let owners = scalers(Tool::Vpa, "/spec/targetRef", &[vpa], &web(|_| {}));
    assert_eq!((owners[0].healing, owners[0].tool.writes_templates()), (Healing::No, false));
}

/// Otherwise a change that was put back would be reported as done, or a scaling as put back.
#[test]
fn c25_c81_another_template_at_a_later_generation_is_overwritten() {
    let ours = web(|o| {
        o["metadata"]["generation"] = json!(3);
        let mut fields = template_fields();
        fields["f:spec"]["f:template"]["f:metadata"] = json!({});
        o["metadata"]["managedFields"] = json!([
            entry("argocd-controller", "Apply", "2026-11-29T11:00:00Z", &json!({"f:spec": {"f:template": {}}})),
            entry("saferollback", "Update", "2026-11-29T12:00:00Z", &fields),
            entry("kube-controller-manager", "Update", "2026-11-29T12:00:00Z", &json!({"f:status": {}})),
        ]);
    });
    let later = |change: &dyn Fn(&mut Value)| {
        let mut now = ours.clone();
        now.0["metadata"]["generation"] = json!(4);
        change(&mut now.0);
        overwritten(&ours, &now)
    };
    let put_back = |o: &mut Value| o["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    let by = |found: Option<Overwritten>| found.expect("overwritten").by;

    assert_eq!(later(&|o| o["spec"]["replicas"] = json!(5)), None, "scaled");
    assert_eq!(later(&|o| o["metadata"]["labels"]["x"] = json!("y")), None);
    let same_generation = |o: &mut Value| {
        put_back(o);
        o["metadata"]["generation"] = json!(3);
    };
    assert_eq!(later(&same_generation), None, "an older state that arrives late");

    // It takes its field back in the same second: its entry gains, ours loses, the controller's time moves.
    let found = later(&|o| {
        put_back(o);
        let entries = &mut o["metadata"]["managedFields"];
        entries[0]["fieldsV1"] = template_fields();
        entries[1]["fieldsV1"] = json!({"f:spec": {"f:template": {"f:metadata": {}}}});
        entries[2]["time"] = json!("2026-11-29T12:00:01Z");
    });
    let found = found.expect("overwritten");
    assert_eq!(found.by, ["argocd-controller"]);
    assert_eq!(found.line(), "the rolled back change was overwritten by argocd-controller (managedFields)");
    assert_eq!((found.generation, found.differs.as_slice()), (4, &["/spec/containers/0/image".to_string()][..]));
    assert_ne!(found.ours, found.theirs);

    let newcomer = by(later(&|o| {
        put_back(o);
        manager(o, "kubectl-edit", &template_fields());
    }));
    assert_eq!(newcomer, ["kubectl-edit"]);
    let unknown = later(&|o| {
        put_back(o);
        o["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    });
    assert!(unknown.expect("overwritten").line().contains("does not name"));
}
